"""The cluster over HTTP: its nodes, its health, its partitions in pages."""

import json

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.doors.http.errors import answer_to
from goqueue.model.errors import NotLeader
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE

pytestmark = pytest.mark.anyio


async def make_topics(broker: Node) -> None:
    for name in ("orders", "payments"):
        await BrokerService(broker).topics.create(ANYONE, NewTopic(name=name, partitions=3))


async def test_a_node_of_one(client: httpx.AsyncClient, broker: Node) -> None:
    await make_topics(broker)
    state = (await client.get("/cluster/state")).json()
    (node,) = state["nodes"]
    assert (state["clusterId"], state["controllerId"]) == (broker.cluster_id, 0)
    assert state["isCluster"] is False
    assert (node["nodeId"], node["status"], node["isController"]) == (0, "alive", True)
    assert (node["leaders"], node["replicas"], node["laggingReplicas"]) == (6, 6, 0)
    assert state["partitions"] == {
        "partitions": 6,
        "offline": 0,
        "underMinIsr": 0,
        "underReplicated": 0,
        "notPreferred": 0,
    }
    health = (await client.get("/cluster/health")).json()
    assert (health["status"], health["reasons"], health["troubled"]) == ("healthy", [], [])


async def test_partitions_come_in_pages(client: httpx.AsyncClient, broker: Node) -> None:
    await make_topics(broker)
    first = (await client.get("/cluster/metadata", params={"limit": 4})).json()
    places = [(p["topic"], p["partition"]) for p in first["partitions"]]
    assert places == [("orders", 0), ("orders", 1), ("orders", 2), ("payments", 0)]
    assert first["nextAfter"] == "payments/0"
    rest = (await client.get("/cluster/metadata", params={"after": first["nextAfter"]})).json()
    assert [p["partition"] for p in rest["partitions"]] == [1, 2]
    assert rest["nextAfter"] is None
    one = rest["partitions"][0]
    assert (one["leader"], one["replicas"], one["isr"], one["minIsr"]) == (0, [0], [0], 1)
    assert one["revision"] > 0
    of_topic = (await client.get("/cluster/metadata", params={"topic": "payments"})).json()
    assert {p["topic"] for p in of_topic["partitions"]} == {"payments"}
    wrong = (await client.get("/cluster/metadata", params={"problem": "offline"})).json()
    assert (wrong["partitions"], wrong["nextAfter"]) == ([], None)
    (here,) = wrong["brokers"]
    assert str(client.base_url) == here["httpUrl"]
    assert (here["nodeId"], here["kafkaAddress"]) == (0, "127.0.0.1:9092")


def test_who_is_told_to_ask_another_broker_is_told_where_and_when() -> None:
    refused = answer_to(NotLeader("t-0 is not led by this broker", leader_url="http://b:8080"))
    assert refused.status == 503
    assert refused.headers == {"retry-after": "1"}
    assert json.loads(refused.body)["error"] == {
        "code": "not_leader",
        "message": "t-0 is not led by this broker",
        "leaderUrl": "http://b:8080",
    }
    nobody = answer_to(NotLeader("t-0 has no leader just now"))
    assert "leaderUrl" not in json.loads(nobody.body)["error"]


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({"after": "orders"}, 400, "after"),
        ({"after": "orders/x"}, 400, "after"),
        ({"problem": "hungry"}, 400, "problem"),
        ({"limit": "0"}, 400, "limit"),
    ],
)
async def test_bad_queries(
    client: httpx.AsyncClient, query: dict[str, str], status: int, words: str
) -> None:
    answer = await client.get("/cluster/metadata", params=query)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
