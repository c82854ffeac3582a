"""A tenant that opens all the connections that there can be: others still log in."""

from pathlib import Path

import pytest

from goqueue.doors.kafka import KafkaDoor
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.sasl_client import log_in_plain
from tests.unit.doors.kafka.secured import Clock, secured_broker, without_rules
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

LIMIT = 8


async def test_one_tenants_connections_do_not_keep_others_out(tmp_path: Path) -> None:
    settings = {"max.connections": str(LIMIT)}
    async with secured_broker(tmp_path, settings, Clock()) as node:
        making = without_rules(node)
        for tenant in ("acme", "zeta"):
            await making.tenants.create(ANYONE, tenant, {})
            await making.users.create(ANYONE, f"{tenant}-boss", "secret", tenant=tenant)
        door = KafkaDoor(BrokerService(node), node.config)
        host, port = await door.start()
        await node.announce(host, port, 0)
        opened: list[WireClient] = []

        async def connect(user: str, password: str) -> WireClient:
            client = await WireClient.connect(host, port)
            opened.append(client)
            answer = await log_in_plain(client, user, password)
            assert not answer.error_code.value
            return client

        try:
            zeta = await connect("zeta-boss", "secret")
            for _ in range(2 * LIMIT):
                await connect("acme-boss", "secret")
            again, root = await connect("zeta-boss", "secret"), await connect("alice", "alice's")
            for client in (zeta, again, root):
                answer = await client.call("metadata", 12, topics=())
                assert len(answer.brokers) == 1
        finally:
            for client in opened:
                client.close()
            await door.stop()
