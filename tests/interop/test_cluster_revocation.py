"""What is taken away at one broker of a cluster counts at the others: on connections that are open,
and for those who wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v4.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v4.response import FetchResponse
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from goqueue.client.connection import Connection
from goqueue.client.errors import BrokerUnreachable
from goqueue.model.records import NewRecord, encode_records
from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched

pytestmark = pytest.mark.anyio

ALICE = ("alice", "s3cret")
OTHERS = (2, 3)
TOPIC = "orders"
REFUSED = ErrorCode.topic_authorization_failed
READ, WRITE = (
    {"principal": "User:alice", "resource": "topic", "name": TOPIC, "operation": operation}
    for operation in ("read", "write")
)
# The bar.
SOON_S = 5
LONG_S = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[GoQueueCluster]:
    with GoQueueCluster(brokers=3, security=True) as cluster:
        cluster.server(1).create_user(*ALICE)
        yield cluster


@pytest.fixture
async def admin(cluster: GoQueueCluster) -> AsyncIterator[httpx.AsyncClient]:
    """Of the first broker, where everything is changed."""
    async with httpx.AsyncClient(**cluster.server(1).http_client_kwargs()) as opened:
        yield opened


class Reader:
    """Alice at one of the other brokers, by Kafka's protocol and by HTTP with a key."""

    def __init__(self, partition: int, kafka: list[Connection], http: httpx.AsyncClient) -> None:
        self._partition = partition
        self._writing, self._reading = kafka
        self._http = http

    async def produce(self) -> ErrorCode:
        records: Any = bytes(encode_records([NewRecord(value=b"v")], now_ms=1))
        part = PartitionProduceData(index=i32(self._partition), records=records)
        request = ProduceRequest(
            transactional_id=None,
            acks=i16(-1),
            timeout=i32Timedelta.parse(timedelta(seconds=LONG_S)),
            topic_data=(TopicProduceData(name=TopicName(TOPIC), partition_data=(part,)),),
        )
        answer = await self._writing.call(request, ProduceResponse)
        return answer.responses[0].partition_responses[0].error_code

    async def wait_for_messages(self) -> ErrorCode:
        part = FetchPartition(
            partition=i32(self._partition), fetch_offset=i64(1), partition_max_bytes=i32(1_000)
        )
        request = FetchRequest(
            replica_id=-1,  # type: ignore[arg-type]
            max_wait=i32Timedelta.parse(timedelta(seconds=LONG_S)),
            min_bytes=i32(100_000),
            max_bytes=i32(100_000),
            isolation_level=i8(0),
            topics=(FetchTopic(topic=TopicName(TOPIC), partitions=(part,)),),
        )
        answer = await self._reading.call(request, FetchResponse)
        return answer.responses[0].partitions[0].error_code

    async def publish(self) -> int:
        answer = await self._http.post(f"/topics/{TOPIC}/messages", json={"value": "v"})
        return answer.status_code


@pytest.fixture
async def readers(cluster: GoQueueCluster, admin: httpx.AsyncClient) -> AsyncIterator[list[Reader]]:
    kafka = AdminClient(cluster.server(1).client_config())
    kafka.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result()
    (await admin.post("/rules", json={"rules": [READ, WRITE]})).raise_for_status()
    key = (await admin.post("/users/alice/keys", json={"kind": "api"})).json()["token"]
    leaders = {
        each.leader: each.id for each in kafka.list_topics(TOPIC).topics[TOPIC].partitions.values()
    }
    async with AsyncExitStack() as stack:
        found = []
        for node in OTHERS:
            server = cluster.server(node)
            host, port = server.bootstrap_servers.split(":")
            security = server.client_security(*ALICE)
            connections = [await Connection.open(host, int(port), security) for _ in range(2)]
            for each in connections:
                stack.push_async_callback(each.close)
            settings = {**server.http_client_kwargs(), "auth": None}
            bearer = {"authorization": f"Bearer {key}"}
            http = await stack.enter_async_context(httpx.AsyncClient(**settings, headers=bearer))
            found.append(Reader(leaders[node], connections, http))
        yield found


async def until_answer(ask: Callable[[], Awaitable[object]], expected: object) -> None:
    async with asyncio.timeout(LONG_S):
        while await ask() != expected:
            await asyncio.sleep(0.02)


async def until_ended(ask: Callable[[], Awaitable[object]]) -> None:
    """The broker closes the connection."""
    async with asyncio.timeout(LONG_S):
        with suppress(BrokerUnreachable):
            while True:
                await ask()


async def test_rules_and_users_that_are_taken_away(
    admin: httpx.AsyncClient, readers: list[Reader]
) -> None:
    waiting = []
    for reader in readers:
        # A broker may not know of the topic or the rule yet.
        await until_answer(reader.produce, ErrorCode.none)
        await until_answer(reader.publish, 200)
        waiting.append(asyncio.create_task(reader.wait_for_messages()))
    done, _ = await asyncio.wait(waiting, timeout=0.3)
    assert not done
    (await admin.delete("/rules?principal=User:alice&operation=read")).raise_for_status()
    async with asyncio.timeout(stretched(SOON_S)):
        assert await asyncio.gather(*waiting) == [REFUSED, REFUSED]
        assert [await each.produce() for each in readers] == [ErrorCode.none] * 2
    (await admin.delete("/rules?principal=User:alice")).raise_for_status()
    async with asyncio.timeout(stretched(SOON_S)):
        for reader in readers:
            await until_answer(reader.produce, REFUSED)
            await until_answer(reader.publish, 403)
    (await admin.delete("/users/alice")).raise_for_status()
    async with asyncio.timeout(stretched(SOON_S)):
        for reader in readers:
            await until_answer(reader.publish, 401)
            await until_ended(reader.produce)
            await until_ended(reader.wait_for_messages)


async def test_a_session_that_is_given_back(cluster: GoQueueCluster) -> None:
    async with AsyncExitStack() as stack:
        brokers = {}
        for node in cluster.node_ids:
            settings = {**cluster.server(node).http_client_kwargs(), "auth": None}
            brokers[node] = await stack.enter_async_context(httpx.AsyncClient(**settings))
        name, password = cluster.server(1).http_client_kwargs()["auth"]
        begun = await brokers[1].post("/session", json={"name": name, "password": password})
        cookie = begun.headers["set-cookie"].partition(";")[0]
        headers = {"cookie": cookie, "sec-fetch-site": "same-origin"}

        async def who(node: int) -> int:
            return (await brokers[node].get("/whoami", headers=headers)).status_code

        assert [await who(node) for node in brokers] == [200, 200, 200]
        assert (await brokers[2].delete("/session", headers=headers)).status_code == 204
        assert await who(2) == 401
        async with asyncio.timeout(stretched(SOON_S)):
            for node in (1, 3):
                await until_answer(partial(who, node), 401)
