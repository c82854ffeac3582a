"""Moves of replicas over HTTP, asked of a node of one; clusters are in `tests/interop`."""

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.model.replication_config import DEFAULT_MOVE_RATE, MOVE_RATE, MOVES_PAUSED
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE

pytestmark = pytest.mark.anyio


async def test_a_node_of_one_has_nowhere_to_go(client: httpx.AsyncClient, broker: Node) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=2))
    moves = [
        {"topic": "a", "partition": 0, "replicas": [0]},
        {"topic": "a", "partition": 1, "replicas": [0, 1]},
        {"topic": "b", "partition": 0, "replicas": [0]},
    ]
    answer = await client.post("/cluster/moves", json={"moves": moves})
    assert answer.status_code == 200
    codes = [each["error"] and each["error"]["code"] for each in answer.json()["results"]]
    assert codes == [None, "invalid_replica_assignment", "unknown_topic"]
    listed = (await client.get("/cluster/moves")).json()
    assert listed == {"moves": [], "isPaused": False, "rateBytes": DEFAULT_MOVE_RATE}
    assert (await client.delete("/cluster/moves")).json() == {"results": []}
    assert (await client.get("/cluster/plans/rebalance")).json()["moves"] == []
    assert (await client.get("/cluster/plans/drain/7")).status_code == 404


async def test_moves_are_held_back(client: httpx.AsyncClient, broker: Node) -> None:
    for body in ({"isPaused": True, "rateBytes": 1_000}, {}):
        assert (await client.patch("/cluster/moves", json=body)).status_code == 204
        listed = (await client.get("/cluster/moves")).json()
        assert (listed["isPaused"], listed["rateBytes"]) == (True, 1_000)
    assert broker.image.broker_config(None) == {MOVES_PAUSED: "true", MOVE_RATE: "1000"}
    body = {"isPaused": False, "rateBytes": 0}
    assert (await client.patch("/cluster/moves", json=body)).status_code == 204
    assert broker.image.broker_config(None) == {MOVE_RATE: "0"}
    assert (await client.get("/cluster/moves")).json()["rateBytes"] is None


async def test_a_node_of_one_stays(client: httpx.AsyncClient) -> None:
    answer = await client.patch("/cluster/nodes/0", json={"isCordoned": True})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "policy_violation")
    assert (await client.post("/topics", json={"name": "t"})).status_code == 201
    assert (await client.delete("/cluster/nodes/9")).status_code == 404
    assert (await client.get("/cluster/plans/drain/99999999999")).status_code == 400
    for wrong in ("null", "-1", "x"):
        asked = await client.delete("/cluster/moves", params={"topic": "t", "partition": wrong})
        assert asked.status_code == 400
    for node in ("7", "00000007"):
        asked = await client.get("/cluster/settings", params={"node": node})
        assert (asked.status_code, asked.json()["error"]["code"]) == (404, "unknown_broker")


@pytest.mark.parametrize(
    "body",
    [
        {"moves": []},
        {"moves": [{"topic": "a", "partition": 0, "replicas": []}]},
        {"moves": [{"topic": "a", "partition": -1, "replicas": [0]}]},
        {"moves": [{"topic": "a b", "partition": 0, "replicas": [0]}]},
        {"moves": [{"topic": "a", "partition": 0, "replicas": [0.5]}]},
        {"moves": [{"topic": "a", "partition": 0, "replicas": [0]}] * 1_001},
    ],
)
async def test_what_is_not_of_the_form(client: httpx.AsyncClient, body: object) -> None:
    assert (await client.post("/cluster/moves", json=body)).status_code == 400
