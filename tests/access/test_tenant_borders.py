"""What the table-driven tests cannot see: forged names, patterns, dead letters, ids of others, and
tenants as they come and go."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.model.names import TOPIC_NAME_MAX_LENGTH
from tests.access.canaries import SETTINGS, Doors
from tests.access.tenant_worlds import ACME, NOBODYS, ZETA, AllMay, coming_from, make_tenants
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

WAIT_S = 30


@dataclass(slots=True)
class Broker:
    node: Node
    doors: Doors

    async def http(self, tenant: str, method: str, path: str, body: object = None) -> Any:
        with coming_from(tenant):
            async with httpx.AsyncClient(
                base_url=self.doors.url, timeout=WAIT_S, verify=False
            ) as http:
                return await http.request(method, path, json=body)

    async def kafka(self, tenant: str) -> WireClient:
        with coming_from(tenant):
            client = await WireClient.connect(*self.doors.kafka.address)
            # The connection is whose it was when it was made.
            await client.call("api_versions", 0)
            return client

    @property
    def bootstrap(self) -> str:
        host, port = self.doors.kafka.address
        return f"{host}:{port}"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    node = await Node.open(broker_config({"data.dir": str(tmp_path / "data"), **SETTINGS}))
    doors = await Doors.open(node, AllMay())
    await node.announce("127.0.0.1", doors.kafka.address[1], 0)
    await make_tenants(node)
    try:
        yield Broker(node, doors)
    finally:
        await doors.close()
        await node.close()


async def test_nobody_forges_an_inner_name(broker: Broker) -> None:
    made = await broker.http(ACME, "POST", "/topics", {"name": "orders", "partitions": 1})
    assert made.status_code == 201
    assert made.headers["location"] == "/topics/orders"
    assert set(broker.node.image.topics) == {"acme@orders"}
    for tenant in (NOBODYS, ZETA):
        for name in ("acme@orders", "orders"):
            assert (await broker.http(tenant, "GET", f"/topics/{name}")).status_code in (400, 404)
        client = await broker.kafka(tenant)
        answer = await client.call("metadata", 8, topics=[{"name": "acme@orders"}])
        # Backups read so: who may act as a broker sees what it names, and nothing in lists.
        is_copying = tenant == NOBODYS
        expected = ErrorCode.none if is_copying else ErrorCode.invalid_topic_exception
        assert answer.topics[0].error_code == expected
        if is_copying:
            deleted = await client.call("delete_topics", 5, topic_names=["acme@orders"])
            assert deleted.responses[0].error_code == ErrorCode.invalid_topic_exception
        everything = await client.call("metadata", 8, topics=None)
        assert everything.topics == ()
        client.close()


async def test_groups_of_a_tenant_are_refused_to_who_has_none(broker: Broker) -> None:
    await broker.http(ACME, "POST", "/topics", {"name": "orders", "partitions": 1})
    await broker.http(ACME, "GET", "/groups/billing/poll?topic=orders&max=1")
    client = await broker.kafka(NOBODYS)
    refused = await client.call("offset_fetch", 5, group_id="acme@billing", topics=None)
    assert refused.error_code == ErrorCode.group_authorization_failed
    # There is no tenant of this name, and groups were always called as people liked.
    allowed = await client.call("offset_fetch", 5, group_id="billing@home", topics=None)
    assert allowed.error_code == ErrorCode.none
    client.close()


async def test_a_topic_id_of_another_tenant_is_unknown(broker: Broker) -> None:
    await broker.http(ACME, "POST", "/topics", {"name": "orders", "partitions": 1})
    client = await broker.kafka(ZETA)
    topic_id = broker.node.image.topics["acme@orders"].id
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}]
    answer = await client.call(
        "fetch", 13, topics=[{"topic_id": topic_id, "partitions": partitions}]
    )
    assert answer.responses[0].partitions[0].error_code == ErrorCode.unknown_topic_id
    client.close()


async def test_a_fetch_session_is_not_used_by_another_tenant(broker: Broker) -> None:
    await broker.http(ACME, "POST", "/topics", {"name": "orders", "partitions": 1})
    own, other = await broker.kafka(ACME), await broker.kafka(ZETA)
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}]
    wanted = [{"topic": "orders", "partitions": partitions}]
    opened = await own.call("fetch", 12, topics=wanted, session_epoch=0)
    assert opened.session_id
    for epoch in (1, -1, 0):
        taken = await other.call("fetch", 12, session_id=opened.session_id, session_epoch=epoch)
        assert taken.responses == ()
    went_on = await own.call("fetch", 12, session_id=opened.session_id, session_epoch=1)
    assert went_on.error_code == ErrorCode.none
    for client in (own, other):
        client.close()


async def test_the_limit_of_names_is_told_without_the_tenant(broker: Broker) -> None:
    limit = TOPIC_NAME_MAX_LENGTH - len("acme@")
    fits = await broker.http(ACME, "POST", "/topics", {"name": "t" * limit, "partitions": 1})
    assert fits.status_code == 201
    long = await broker.http(ACME, "POST", "/topics", {"name": "t" * (limit + 1)})
    assert long.status_code == 422
    assert f"the limit is {limit}" in long.json()["error"]["message"]


async def test_patterns_find_what_the_tenant_has(broker: Broker) -> None:
    for tenant in (NOBODYS, ACME, ZETA):
        for name in ("orders-eu", f"orders-{tenant or 'nobodys'}"):
            made = await broker.http(tenant, "POST", "/topics", {"name": name, "partitions": 1})
            assert made.status_code == 201
    for tenant in (ACME, NOBODYS):
        joined = await broker.http(
            tenant, "POST", "/groups/g/join/cooperative", {"topicRegex": "^orders-.*$"}
        )
        assert joined.status_code == 200, joined.text
        held = {each["topic"] for each in joined.json()["assignment"]}
        assert held == {"orders-eu", f"orders-{tenant or 'nobodys'}"}
        shown = await broker.http(tenant, "GET", "/groups/g/cooperative")
        assert [each["topicRegex"] for each in shown.json()["members"]] == ["^orders-.*$"]
    # Who has no tenant cannot write a pattern as the broker keeps those of tenants.
    forged = await broker.http(
        NOBODYS, "POST", "/groups/h/join/cooperative", {"topicRegex": "*acme@.*"}
    )
    assert forged.status_code >= 400


async def test_dead_letters_go_back_under_the_tenants_names(broker: Broker) -> None:
    topic = {"name": "orders", "partitions": 1}
    await broker.http(ACME, "POST", "/topics", topic)
    await broker.http(ACME, "POST", "/topics/orders/messages", {"value": "bad"})
    polled = await broker.http(ACME, "GET", "/groups/g/poll?topic=orders&max=1")
    receipts = [each["receipt"] for each in polled.json()["messages"]]
    assert receipts[0].startswith("orders:")
    rejected = await broker.http(
        ACME, "POST", "/messages/reject", {"group": "g", "receipts": receipts}
    )
    assert rejected.json()["results"] == [{"receipt": receipts[0], "error": None}]
    async with asyncio.timeout(WAIT_S):
        while not (letters := await _letters(broker)):
            await asyncio.sleep(0.02)
    assert (letters[0]["sourceTopic"], letters[0]["group"]) == ("orders", "g")
    assert "acme@orders.dlq" in broker.node.image.topics
    redriven = await broker.http(ACME, "POST", "/topics/orders/dlq/redrive", {})
    assert redriven.json()["sentBack"] == 1, redriven.text
    again = await broker.http(ACME, "GET", "/groups/g/poll?topic=orders&max=1")
    assert [each["value"] for each in again.json()["messages"]] == ["bad"]


async def _letters(broker: Broker) -> list[dict[str, Any]]:
    answer = await broker.http(ACME, "GET", "/topics/orders/dlq")
    return list(answer.json()["deadLetters"]) if answer.status_code == 200 else []


async def test_a_client_library_works_in_each_tenant(broker: Broker) -> None:
    """The classic protocol carries names that only clients read: in subscriptions, assignments and
    what the leader works out."""
    for tenant in (NOBODYS, ACME):
        await broker.http(tenant, "POST", "/topics", {"name": "orders", "partitions": 2})
    for tenant in (ACME, NOBODYS):
        with coming_from(tenant):
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
            consumers = [
                AIOKafkaConsumer(
                    "orders",
                    bootstrap_servers=broker.bootstrap,
                    group_id="billing",
                    auto_offset_reset="earliest",
                )
                for _ in range(2)
            ]
            clients: list[Any] = [producer, *consumers]
            for client in clients:
                await client.start()
            try:
                for index in range(2):
                    await producer.send_and_wait("orders", tenant.encode(), partition=index)
                async with asyncio.timeout(WAIT_S):
                    while sum(len(each.assignment()) for each in consumers) != 2 or not all(
                        each.assignment() for each in consumers
                    ):
                        await asyncio.sleep(0.05)
                    for consumer in consumers:
                        found = await consumer.getone()
                        assert (found.topic, found.value) == ("orders", tenant.encode())
                        await consumer.commit()
                seen = await broker.http(tenant, "GET", "/groups/billing")
                assert {each["topic"] for each in seen.json()["partitions"]} == {"orders"}
            finally:
                for client in reversed(clients):
                    await client.stop()


async def test_tenants_come_and_go(broker: Broker) -> None:
    made = await broker.http(NOBODYS, "POST", "/tenants", {"name": "bolt", "limits": {"topics": 3}})
    assert made.status_code == 201, made.text
    assert made.json()["limits"] == {"topics": 3.0}
    twice = await broker.http(NOBODYS, "POST", "/tenants", {"name": "bolt"})
    assert twice.json()["error"]["code"] == "tenant_exists"
    changed = await broker.http(
        NOBODYS, "PATCH", "/tenants/bolt", {"limits": {"topics": None, "groups": 5}}
    )
    assert changed.json()["limits"] == {"groups": 5.0}
    listed = await broker.http(NOBODYS, "GET", "/tenants")
    assert [each["name"] for each in listed.json()["tenants"]] == ["acme", "bolt", "zeta"]
    await broker.http("bolt", "POST", "/topics", {"name": "orders", "partitions": 2})
    await broker.http("bolt", "POST", "/topics/orders/messages", {"value": "x" * 1_000})
    client = await broker.kafka("bolt")
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [partition]}]
    await client.call("offset_commit", 8, group_id="billing", topics=topics)
    client.close()
    schema = {"schema": '"string"'}
    for subject in ("orders-value", ":.staging:orders-value"):
        await broker.http("bolt", "POST", f"/subjects/{subject}/versions", schema)
    usage = (await broker.http(NOBODYS, "GET", "/tenants/bolt/usage")).json()
    assert usage.pop("bytes") > 1_000
    assert usage == {
        "users": 0,
        "topics": 1,
        "partitions": 2,
        "groups": 1,
        "transactionalIds": 0,
        "subjects": 2,
    }
    kept = await broker.http(NOBODYS, "DELETE", "/tenants/bolt")
    assert kept.status_code == 409
    assert "1 topics" in kept.json()["error"]["message"]
    gone = await broker.http(NOBODYS, "DELETE", "/tenants/bolt?force=true")
    assert gone.status_code == 204, gone.text
    assert (await broker.http(NOBODYS, "GET", "/tenants/bolt")).status_code == 404
    assert not any(name.startswith("bolt@") for name in broker.node.image.topics)
    assert (await broker.http(NOBODYS, "POST", "/tenants", {"name": "bolt"})).status_code == 201


async def test_a_tenant_is_not_made_of_what_others_have(broker: Broker) -> None:
    client = await broker.kafka(NOBODYS)
    await broker.http(NOBODYS, "POST", "/topics", {"name": "orders", "partitions": 1})
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [partition]}]
    await client.call("offset_commit", 8, group_id="bolt@billing", topics=topics)
    refused = await broker.http(NOBODYS, "POST", "/tenants", {"name": "bolt"})
    assert refused.status_code == 409, refused.text
    client.close()
