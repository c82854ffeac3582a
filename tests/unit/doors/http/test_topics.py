from uuid import UUID

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.model.topic_config import TOPIC_SETTINGS
from tests.unit.doors.http.answers import error_code, error_message

pytestmark = pytest.mark.anyio


async def test_create_describes_the_new_topic(client: httpx.AsyncClient) -> None:
    created = await client.post(
        "/topics", json={"name": "orders", "partitions": 2, "config": {"retention.ms": 60000}}
    )

    assert created.status_code == 201
    assert created.headers["location"] == "/topics/orders"
    topic = created.json()
    assert UUID(topic.pop("id"))
    effective = {entry["name"]: entry for entry in topic.pop("effectiveConfig")}
    assert set(effective) == set(TOPIC_SETTINGS)
    assert effective["retention.ms"] == {
        "name": "retention.ms",
        "value": "60000",
        "source": "topic",
    }
    assert effective["fsync.policy"]["source"] == "default"
    assert topic == {
        "name": "orders",
        "internal": False,
        "partitionCount": 2,
        "replicationFactor": 1,
        "sizeBytes": 0,
        "partitions": [
            {
                "partition": index,
                "leader": 0,
                "leaderEpoch": topic["partitions"][index]["leaderEpoch"],
                "replicas": [0],
                "isr": [0],
                "logStartOffset": 0,
                "highWatermark": 0,
                "sizeBytes": 0,
                "offlineReason": None,
            }
            for index in range(2)
        ],
        "config": {"retention.ms": "60000"},
    }
    assert (await client.get("/topics/orders")).json() == created.json()


async def test_defaults_and_json_types_of_settings(client: httpx.AsyncClient) -> None:
    created = await client.post(
        "/topics",
        json={
            "name": "t",
            "config": {"min.cleanable.dirty.ratio": 0.25, "cleanup.policy": "compact,delete"},
        },
    )

    assert created.json()["partitionCount"] == 3
    assert created.json()["config"] == {
        "min.cleanable.dirty.ratio": "0.25",
        "cleanup.policy": "compact,delete",
    }


async def test_description_follows_what_is_stored(client: httpx.AsyncClient, orders: str) -> None:
    await client.post(f"/topics/{orders}/messages", json={"value": "x" * 1000, "partition": 1})

    topic = (await client.get(f"/topics/{orders}")).json()

    empty, written = topic["partitions"]
    assert (empty["highWatermark"], empty["sizeBytes"]) == (0, 0)
    assert written["highWatermark"] == 1
    assert written["sizeBytes"] > 1000
    assert topic["sizeBytes"] == written["sizeBytes"]
    [listed] = (await client.get("/topics")).json()["topics"]
    assert listed == {
        "name": orders,
        "id": topic["id"],
        "internal": False,
        "partitionCount": 2,
        "replicationFactor": 1,
        "sizeBytes": topic["sizeBytes"],
    }


async def test_topics_are_listed_by_name(client: httpx.AsyncClient) -> None:
    for name in ("b", "c", "a"):
        await client.post("/topics", json={"name": name, "partitions": 1})

    topics = (await client.get("/topics")).json()["topics"]

    assert [topic["name"] for topic in topics] == ["a", "b", "c"]


async def test_alter_sets_resets_and_grows(client: httpx.AsyncClient, orders: str) -> None:
    path = f"/topics/{orders}"
    await client.patch(path, json={"config": {"retention.ms": "1", "segment.ms": 5}})

    altered = await client.patch(path, json={"partitions": 4, "config": {"retention.ms": None}})

    assert altered.status_code == 200
    assert altered.json()["partitionCount"] == 4
    assert altered.json()["config"] == {"segment.ms": "5"}
    assert altered.json() == (await client.get(path)).json()


async def test_alter_to_the_same_count_changes_nothing(
    client: httpx.AsyncClient, orders: str
) -> None:
    before = (await client.get(f"/topics/{orders}")).json()

    altered = await client.patch(f"/topics/{orders}", json={"partitions": 2})

    assert altered.json() == before


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": 4, "config": {"retention.ms": "soon"}},
        {"partitions": 1, "config": {"retention.ms": "1"}},
    ],
)
async def test_a_refused_change_leaves_nothing_half_done(
    client: httpx.AsyncClient, orders: str, change: dict[str, object]
) -> None:
    before = (await client.get(f"/topics/{orders}")).json()

    refused = await client.patch(f"/topics/{orders}", json=change)

    assert error_code(refused, 422) in ("invalid_config", "invalid_partitions")
    assert (await client.get(f"/topics/{orders}")).json() == before


async def test_delete(client: httpx.AsyncClient, orders: str) -> None:
    deleted = await client.delete(f"/topics/{orders}")

    assert (deleted.status_code, deleted.content) == (204, b"")
    assert error_code(await client.get(f"/topics/{orders}"), 404) == "unknown_topic"
    assert error_code(await client.delete(f"/topics/{orders}"), 404) == "unknown_topic"


async def test_creating_twice_is_a_conflict(client: httpx.AsyncClient, orders: str) -> None:
    assert error_code(await client.post("/topics", json={"name": orders}), 409) == "topic_exists"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../etc", "ä", "a b", "x" * 250, "a\u0000"])
async def test_names_that_are_refused(client: httpx.AsyncClient, name: str) -> None:
    refused = await client.post("/topics", json={"name": name})

    assert error_code(refused, 400) == "invalid_request"
    assert "name" in error_message(refused)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "t", "partitions": 0}, "partitions"),
        ({"name": "t", "partitions": -1}, "partitions"),
        ({"name": "t", "partitions": 2**40}, "partitions"),
        ({"name": "t", "partitions": 1.5}, "partitions"),
        ({"name": "t", "partitions": "3"}, "partitions"),
        ({"name": "t", "config": {"retention.ms": None}}, "config"),
        ({"name": "t", "config": []}, "config"),
        ({"name": "t", "partitons": 3}, "partitons"),
        ({}, "name"),
    ],
)
async def test_bodies_of_the_wrong_form(
    client: httpx.AsyncClient, broker: Node, body: object, field: str
) -> None:
    refused = await client.post("/topics", json=body)

    assert error_code(refused, 400) == "invalid_request"
    assert field in error_message(refused)
    assert not broker.image.topics


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "t", "partitions": 10_001}, "invalid_partitions"),
        ({"name": "t", "replicationFactor": 2}, "invalid_replication_factor"),
        ({"name": "t", "config": {"retention.ms": "soon"}}, "invalid_config"),
        ({"name": "t", "config": {"no.such.setting": 1}}, "invalid_config"),
    ],
)
async def test_contents_that_are_refused(
    client: httpx.AsyncClient, broker: Node, body: object, code: str
) -> None:
    assert error_code(await client.post("/topics", json=body), 422) == code
    assert not broker.image.topics


async def test_an_integer_may_be_written_with_a_point(client: httpx.AsyncClient) -> None:
    created = await client.post("/topics", json={"name": "t", "partitions": 2.0})

    assert created.json()["partitionCount"] == 2
