"""All the connections that there can be are open: others still log in, and brokers keep theirs."""

from pathlib import Path

import pytest

from goqueue.doors.kafka import KafkaDoor
from goqueue.model.security.users import BROKERS, BROKERS_USER
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.sasl_client import log_in, log_in_plain
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
            for _ in range(LIMIT - 1):
                await connect("acme-boss", "secret")
            # One more of those who have most is sent away.
            with pytest.raises((EOFError, OSError)):
                await connect("acme-boss", "secret")
            again, root = await connect("zeta-boss", "secret"), await connect("alice", "alice's")
            for client in (zeta, again, root):
                answer = await client.call("metadata", 12, topics=())
                assert len(answer.brokers) == 1
        finally:
            for client in opened:
                client.close()
            await door.stop()


async def test_brokers_keep_their_connections_whoever_else_connects(tmp_path: Path) -> None:
    """Here they have most of all, as everywhere with many users of one connection each."""
    settings = {"max.connections": str(LIMIT)}
    async with secured_broker(tmp_path, settings, Clock()) as node:
        making = without_rules(node)
        names = [f"user-{number}" for number in range(2 * LIMIT)]
        # It is nobody of the brokers.
        names.append(BROKERS.name)
        for name in names:
            await making.users.create(ANYONE, name, "secret")
        door = KafkaDoor(BrokerService(node), node.config)
        host, port = await door.start()
        await node.announce(host, port, 0)
        opened: list[WireClient] = []

        async def connect() -> WireClient:
            opened.append(await WireClient.connect(host, port))
            return opened[-1]

        try:
            secret = node.security.master_key.secret("brokers", "").hex()
            peers = [await connect() for _ in range(3)]
            for peer in peers:
                answer = await log_in(peer, BROKERS_USER, secret)
                assert not answer.error_code.value
            for name in names * 2:
                answer = await log_in_plain(await connect(), name, "secret")
                assert not answer.error_code.value
            for peer in peers:
                answer = await peer.call("metadata", 12, topics=())
                assert len(answer.brokers) == 1
        finally:
            for client in opened:
                client.close()
            await door.stop()
