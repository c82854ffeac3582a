"""Settings of running brokers over HTTP."""

from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node

pytestmark = pytest.mark.anyio


async def shown(client: httpx.AsyncClient, **query: str) -> dict[str, dict[str, Any]]:
    answer = await client.get("/cluster/settings", params=query)
    assert answer.status_code == 200, answer.text
    return {each["name"]: each for each in answer.json()["settings"]}


async def test_what_holds_and_where_it_comes_from(client: httpx.AsyncClient) -> None:
    assert await shown(client) == {}, "nothing was set of all brokers"
    mine = await shown(client, node="0")
    assert list(mine) == sorted(mine)
    one = mine["max.connections"]
    assert (one["value"], one["source"], one["canChange"]) == ("10000", "default", True)
    assert (mine["http.port"]["source"], mine["http.port"]["canChange"]) == ("static_broker", False)


async def test_changes_of_all_and_of_one(client: httpx.AsyncClient, broker: Node) -> None:
    body: dict[str, Any] = {"config": {"log.retention.ms": 1_000, "num.partitions": "5"}}
    answer = await client.patch("/cluster/settings", json=body)
    assert answer.status_code == 200, answer.text
    told = {each["name"]: each["value"] for each in answer.json()["settings"]}
    assert told["log.retention.ms"] == told["topic.retention.ms"] == "1000"
    body = {"config": {"num.partitions": 6, "auto.create.topics.enable": False}}
    await client.patch("/cluster/settings", params={"node": "0"}, json=body)
    found = await shown(client, node="0")
    assert found["num.partitions"]["source"] == "dynamic_broker"
    assert found["log.retention.ms"]["source"] == "dynamic_default_broker"
    assert broker.config.num_partitions == 6
    assert not broker.config.auto_create_topics_enable
    body = {"config": {"num.partitions": None}}
    await client.patch("/cluster/settings", params={"node": "0"}, json=body)
    assert broker.config.num_partitions == 5


@pytest.mark.parametrize(
    ("query", "body", "code", "words"),
    [
        ({}, {"config": {"nope": "1"}}, "invalid_config", "nope: no such setting"),
        ({}, {"config": {"kafka.port": 1}}, "invalid_request", "cannot be changed at run time"),
        ({}, {"config": {"max.connections": "x"}}, "invalid_config", "max.connections"),
        ({"node": "9"}, {"config": {"max.connections": 9}}, "unknown_broker", "no broker 9"),
        ({"node": "x"}, {"config": {}}, "invalid_request", "node"),
        ({}, {"config": {}, "more": 1}, "invalid_request", "more"),
        ({}, {}, "invalid_request", "config"),
    ],
)
async def test_what_is_refused(
    client: httpx.AsyncClient,
    broker: Node,
    query: dict[str, str],
    body: dict[str, Any],
    code: str,
    words: str,
) -> None:
    answer = await client.patch("/cluster/settings", params=query, json=body)
    assert answer.status_code in (400, 404, 422)
    assert answer.json()["error"]["code"] == code
    assert words in answer.json()["error"]["message"]
    assert broker.image.broker_configs == {}
