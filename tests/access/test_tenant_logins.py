"""Tenants by real log-ins and real rules: the tenant stands in the credential."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.service.broker_service import BrokerService
from tests.access.canaries import SETTINGS, Doors
from tests.access.tenant_worlds import ACME, ZETA, AllMay

pytestmark = pytest.mark.anyio

MAKER = Caller(principal=ANONYMOUS, door=Door.HTTP)


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Doors]:
    """Each tenant has an administrator of its name, and a user without rights."""
    texts = {"data.dir": str(tmp_path / "data"), **SETTINGS, "security.enabled": "true"}
    node = await Node.open(broker_config(texts))
    made = BrokerService(node, AllMay())
    for tenant in (ACME, ZETA):
        await made.tenants.create(MAKER, tenant, {})
        await made.users.create(MAKER, f"{tenant}-boss", "secret", tenant=tenant, is_admin=True)
        await made.users.create(MAKER, f"{tenant}-user", "secret", tenant=tenant)
    opened = await Doors.open(node, None)
    await node.announce("127.0.0.1", opened.kafka.address[1], 0)
    try:
        yield opened
    finally:
        await opened.close()
        await node.close()


def http(doors: Doors, user: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=doors.url, auth=(user, "secret"), timeout=30, verify=False)


async def test_the_same_names_in_two_tenants(doors: Doors) -> None:
    for tenant in (ACME, ZETA):
        async with http(doors, f"{tenant}-boss") as boss:
            made = await boss.post("/topics", json={"name": "orders", "partitions": 1})
            assert made.status_code == 201, made.text
            rule = {
                "resource": "topic",
                "name": "orders",
                "pattern": "literal",
                "principal": f"User:{tenant}-user",
                "host": "*",
                "operation": "read",
                "permission": "allow",
            }
            assert (await boss.post("/rules", json={"rules": [rule]})).status_code == 201
            assert (await boss.get("/metrics")).status_code == 403
            assert (await boss.get("/tenants")).status_code == 403
            users = (await boss.get("/users")).json()["users"]
            assert {each["name"] for each in users} == {f"{tenant}-boss", f"{tenant}-user"}
            # One's own default context, before and after there is anything in it.
            assert (await boss.get("/contexts")).json() == ["."]
            subject = await boss.post("/subjects/:.a:x/versions", json={"schema": '"string"'})
            assert subject.status_code == 200, subject.text
            assert (await boss.get("/contexts")).json() == [".", ".a"]
    for tenant in (ACME, ZETA):
        log_in = {
            "bootstrap_servers": "{}:{}".format(*doors.kafka.address),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": f"{tenant}-boss",
            "sasl_plain_password": "secret",
        }
        async with AIOKafkaProducer(**log_in) as producer:
            await producer.send_and_wait("orders", tenant.encode())
        async with AIOKafkaConsumer(
            "orders", **log_in, group_id="billing", auto_offset_reset="earliest"
        ) as consumer:
            found = await consumer.getone()
            assert (found.topic, found.offset, found.value) == ("orders", 0, tenant.encode())
            assert await consumer.topics() == {"orders"}
        async with http(doors, f"{tenant}-user") as user:
            # What the rule of its tenant allows, and nothing else.
            read = await user.get("/topics/orders/partitions/0/messages")
            assert [each["value"] for each in read.json()["messages"]] == [tenant]
            assert (await user.delete("/topics/orders")).status_code == 403
