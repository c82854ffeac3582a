"""Tenants by real log-ins and real rules: the tenant stands in the credential."""

import json
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

TRACE = "ab" * 16
TRACED = {"traceparent": f"00-{TRACE}-{'cd' * 8}-01"}
MAKER = Caller(principal=ANONYMOUS, door=Door.HTTP)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    texts = {"data.dir": str(tmp_path / "data"), **SETTINGS, "security.enabled": "true"}
    opened = await Node.open(broker_config(texts))
    yield opened
    await opened.close()


@pytest.fixture
async def doors(node: Node) -> AsyncIterator[Doors]:
    """Each tenant has an administrator of its name, and a user without rights."""
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


async def test_a_later_tenant_of_the_name_begins_with_nothing(doors: Doors, node: Node) -> None:
    """Whatever the one before had allowed, set, or made so that it cannot be changed."""
    everything = {"principal": "User:*", "operation": "all"}
    rules = [
        {"resource": "topic", "name": "*", **everything},
        {"resource": "cluster", "name": "kafka-cluster", **everything},
    ]
    record = {"type": "record", "name": "A", "fields": []}
    other = {**record, "name": "B", "fields": [{"name": "a", "type": "A"}]}
    to_a = {"name": "A", "subject": "a", "version": 1}
    async with http(doors, f"{ACME}-boss") as boss:
        answers = [
            await boss.post("/rules", json={"rules": rules}),
            await boss.post("/subjects/a/versions", json={"schema": json.dumps(record)}),
            await boss.post(
                "/subjects/b/versions",
                json={"schema": json.dumps(other), "references": [to_a]},
            ),
            # It could be deleted neither before what refers to it, nor while it is read-only.
            await boss.put("/mode/b", json={"mode": "READONLY"}),
            await boss.put("/config/:.staging:", json={"compatibility": "FULL"}),
            await boss.put("/mode/:.staging:", json={"mode": "READONLY"}),
        ]
        assert [each.status_code for each in answers] == [201, 200, 200, 200, 200, 200]
        await boss.post("/topics", json={"name": "orders", "partitions": 1})
        await boss.post("/topics/orders/messages", json={"value": "a"}, headers=TRACED)
        assert (await boss.get("/traces")).json()["traces"]
    made = BrokerService(node, AllMay())
    await made.tenants.delete(MAKER, ACME, is_forced=True)
    await made.tenants.create(MAKER, ACME, {})
    await made.users.create(MAKER, f"{ACME}-boss", "secret", tenant=ACME, is_admin=True)
    await made.users.create(MAKER, f"{ACME}-user", "secret", tenant=ACME)
    async with http(doors, f"{ACME}-boss") as boss:
        assert (await boss.get("/rules")).json() == {"rules": []}
        assert (await boss.get("/subjects?deleted=true")).json() == []
        assert (await boss.get("/contexts")).json() == ["."]
        for path in ("/mode/b", "/mode/:.staging:", "/config/:.staging:"):
            shown = await boss.get(path)
            assert shown.status_code == 404 or "READONLY" not in shown.text
            assert "FULL" not in shown.text
        await boss.post("/topics", json={"name": "orders", "partitions": 1})
        assert (await boss.get("/traces")).json()["traces"] == []
        for path in (f"/traces/{TRACE}", "/traces/messages/orders/0/0"):
            assert (await boss.get(path)).status_code == 404, path
        await boss.post("/topics/orders/messages", json={"value": "a"}, headers=TRACED)
        assert (await boss.get("/traces/messages/orders/0/0")).json()["traceId"] == TRACE
    async with http(doors, f"{ACME}-user") as user:
        assert (await user.get("/users")).status_code == 403
        assert (await user.post("/topics", json={"name": "mine"})).status_code == 403


async def test_rules_go_with_a_tenant_that_has_nothing_else(doors: Doors, node: Node) -> None:
    made = BrokerService(node, AllMay())
    await made.tenants.create(MAKER, "bolt", {})
    await made.users.create(MAKER, "bolt-boss", "secret", tenant="bolt", is_admin=True)
    async with http(doors, "bolt-boss") as boss:
        rule = {"resource": "topic", "name": "*", "principal": "User:*", "operation": "all"}
        assert (await boss.post("/rules", json={"rules": [rule]})).status_code == 201
    await made.users.delete(MAKER, "bolt-boss")
    await made.tenants.delete(MAKER, "bolt", is_forced=False)
    assert not node.security.image.rules
