"""HTTP members and librdkafka in one group; HTTP transactions read by Kafka consumers."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.interop.servers import Server

DEADLINE_SECONDS = 120


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.http_url, timeout=DEADLINE_SECONDS) as opened:
        yield opened


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


@pytest.fixture
def orders(http: httpx.Client, topic: str) -> str:
    """A topic of four partitions with ten messages in each."""
    http.post("/topics", json={"name": topic, "partitions": 4}).raise_for_status()
    messages = [{"value": f"{p}:{n}", "partition": p} for p in range(4) for n in range(10)]
    http.post(f"/topics/{topic}/messages", json={"messages": messages}).raise_for_status()
    return topic


def until(condition: Callable[[], bool], step: Callable[[], Any]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        step()


class HttpMember:
    """What an HTTP client does: poll; on 409 commit and join again."""

    def __init__(self, http: httpx.Client, group: str, topic: str, **options: Any) -> None:
        self._http = http
        self._path = f"/groups/{group}"
        self._options = {"topics": [topic], "offsetReset": "earliest", **options}
        self.member: dict[str, Any] = {}
        self.seen: list[str] = []
        self.joins = 0

    def join(self) -> None:
        given = {"memberId": self.member["memberId"]} if self.member else {}
        response = self._http.post(f"{self._path}/join", json={**self._options, **given})
        assert response.status_code == 200, response.text
        self.member = response.json()
        self.joins += 1

    def poll(self, timeout_ms: int = 200) -> None:
        query: dict[str, Any] = {"memberId": self.member["memberId"], "timeout": timeout_ms}
        response = self._http.get(f"{self._path}/poll", params=query)
        if response.status_code == 409:
            assert response.json()["error"]["code"] == "rebalance_in_progress", response.text
            self.commit(may_fail=True)
            self.join()
            return
        assert response.status_code == 200, response.text
        self.seen += [message["value"] for message in response.json()["messages"]]

    def commit(self, *, may_fail: bool = False) -> None:
        body = {"memberId": self.member["memberId"]}
        response = self._http.post(f"{self._path}/offsets", json=body)
        assert may_fail or response.status_code == 200, response.text

    def leave(self) -> None:
        body = {"memberId": self.member["memberId"]}
        response = self._http.post(f"{self._path}/leave", json=body)
        assert response.status_code == 204, response.text

    @property
    def partitions(self) -> set[int]:
        return {n for each in self.member["assignment"] for n in each["partitions"]}


@contextmanager
def kafka_consumer(server: Server, group: str, **options: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 6000,
            **options,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def held(consumer: Consumer) -> set[int]:
    return {place.partition for place in consumer.assignment()}


def values_of(messages: list[Any]) -> list[str]:
    for message in messages:
        assert message.error() is None, message.error()
    return [message.value().decode() for message in messages]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
@pytest.mark.parametrize("kafka_leads", [True, False])
def test_a_group_of_both_splits_rebalances_and_shares_offsets(
    server: Server,
    http: httpx.Client,
    group: str,
    orders: str,
    strategy: str,
    kafka_leads: bool,
) -> None:
    changes: list[str] = []
    member = HttpMember(http, group, orders)
    from_kafka: list[str] = []

    def settled(consumer: Consumer) -> bool:
        mine, theirs = member.partitions, held(consumer)
        return len(mine) == len(theirs) == 2 and mine | theirs == {0, 1, 2, 3}

    with (
        kafka_consumer(server, group, **{"partition.assignment.strategy": strategy}) as consumer,
        ThreadPoolExecutor(1) as thread,
    ):

        def step() -> None:
            """Both go on at once: each waits for the other in a rebalance."""
            polled: Future[None] = thread.submit(member.poll)
            from_kafka.extend(values_of(consumer.consume(100, 0.2)))
            while not polled.done():
                from_kafka.extend(values_of(consumer.consume(100, 0.05)))
            polled.result()

        if not kafka_leads:
            member.join()
            assert member.partitions == {0, 1, 2, 3}
        consumer.subscribe(
            [orders],
            on_assign=lambda *_: changes.append("assigned"),
            on_revoke=lambda *_: changes.append("revoked"),
        )
        if kafka_leads:
            until(
                lambda: len(held(consumer)) == 4,
                lambda: from_kafka.extend(values_of(consumer.consume(100, 0.1))),
            )
            joined = thread.submit(member.join)
            until(joined.done, lambda: from_kafka.extend(values_of(consumer.consume(100, 0.05))))
            joined.result()
        until(lambda: settled(consumer), step)

        assert member.member["assignor"] == strategy
        assert "assigned" in changes
        if kafka_leads:
            assert "revoked" in changes
        else:
            assert member.joins >= 2
        described = http.get(f"/groups/{group}").json()
        assert described["state"] == "Stable"
        assert len(described["members"]) == 2

        def step_and_commit() -> None:
            step()
            member.commit()
            with suppress(KafkaException):  # nothing was read since the last commit
                consumer.commit(asynchronous=False)

        def committed() -> list[int]:
            found = http.get(f"/groups/{group}/offsets").json()["offsets"]
            return [each["committedOffset"] for each in found]

        until(lambda: committed() == [10] * 4, step_and_commit)
        assert len({*member.seen, *from_kafka}) == 40
        places = [TopicPartition(orders, partition) for partition in range(4)]
        assert [place.offset for place in consumer.committed(places, timeout=60)] == [10] * 4

        # The HTTP member leaves: librdkafka gets its partitions and goes on where it was.
        before = len(from_kafka)
        member.leave()
        until(
            lambda: len(held(consumer)) == 4,
            lambda: from_kafka.extend(values_of(consumer.consume(100, 0.1))),
        )
        assert from_kafka[before:] == []


def test_cooperative_members_of_both_share_a_group(
    server: Server, http: httpx.Client, group: str, orders: str
) -> None:
    """KIP-848: a partition moves only when its holder has confirmed."""
    options: dict[str, Any] = {"group.protocol": "consumer"}
    with kafka_consumer_of_the_new_protocol(server, group, options) as consumer:
        body = {"topics": [orders], "offsetReset": "earliest"}
        member = http.post(f"/groups/{group}/join/cooperative", json=body).json()
        assert sum(len(each["partitions"]) for each in member["assignment"]) == 4
        consumer.subscribe([orders])
        revoked: list[int] = []

        def step() -> None:
            consumer.consume(100, 0.1)
            query = {"memberId": member["memberId"]}
            polled = http.get(f"/groups/{group}/poll", params=query).json()
            if polled["revoke"]:
                revoked.extend(n for each in polled["revoke"] for n in each["partitions"])
                http.post(f"/groups/{group}/revoke", json=query).raise_for_status()

        until(lambda: len(held(consumer)) == 2, step)
        assert held(consumer) == set(revoked)
        found = http.get(f"/groups/{group}/cooperative").json()
        assert found["state"] == "Stable"
        assert sorted(len(m["assignment"][0]["partitions"]) for m in found["members"]) == [2, 2]


@contextmanager
def kafka_consumer_of_the_new_protocol(
    server: Server, group: str, options: dict[str, Any]
) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **options,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def test_a_restart_brings_http_members_back_to_the_group_s_offsets(
    server: Server, http: httpx.Client, group: str, orders: str
) -> None:
    member = HttpMember(http, group, orders)
    member.join()
    until(lambda: len(member.seen) == 40, member.poll)
    member.commit()

    server.restart()

    query = {"memberId": member.member["memberId"]}
    response = http.get(f"/groups/{group}/poll", params=query)
    assert response.status_code == 409
    assert response.json()["error"]["code"] == "unknown_member_id"
    member.join()
    body = {"value": "after", "partition": 0}
    http.post(f"/topics/{orders}/messages", json=body).raise_for_status()
    member.seen.clear()
    until(lambda: bool(member.seen), member.poll)
    assert member.seen == ["after"]


def ask(http: httpx.Client, path: str, body: Any) -> dict[str, Any]:
    response = http.post(path, json=body)
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


def identity(answered: dict[str, Any]) -> dict[str, Any]:
    return {name: answered[name] for name in ("transactionalId", "producerId", "epoch")}


def test_an_http_transaction_is_atomic_for_kafka_consumers_over_restarts(
    server: Server, http: httpx.Client, group: str, topic: str
) -> None:
    http.post("/topics", json={"name": topic, "partitions": 2}).raise_for_status()
    places = [TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)]
    producer = identity(ask(http, "/producers/init", {"transactionalId": f"tx-{topic}"}))

    def publish(*values: str) -> None:
        messages = [{"value": v, "partition": n % 2} for n, v in enumerate(values)]
        ask(http, "/transactions/publish", {**producer, "topic": topic, "messages": messages})

    def read(isolation: str) -> list[str]:
        """Everything up to the end that this reader may see."""
        options = {"isolation.level": isolation, "enable.partition.eof": True}
        found: list[str] = []
        with kafka_consumer(server, f"{group}-reader", **options) as consumer:
            consumer.assign(places)
            ends = 0
            while ends < len(places):
                message = consumer.poll(DEADLINE_SECONDS)
                assert message is not None
                if message.error() is None:
                    found += values_of([message])
                else:
                    ends += 1
        return sorted(found)

    ask(http, "/transactions/begin", producer)
    publish("a", "b")
    assert read("read_uncommitted") == ["a", "b"]
    assert read("read_committed") == []

    server.sigkill()
    server.start()

    assert read("read_committed") == []
    publish("c", "d")
    producer = identity(ask(http, "/transactions/commit", producer))
    assert read("read_committed") == ["a", "b", "c", "d"]

    ask(http, "/transactions/begin", producer)
    publish("x", "y")
    ended = ask(http, "/transactions/abort", producer)
    assert ended["state"] == "CompleteAbort"
    assert read("read_committed") == ["a", "b", "c", "d"]
    assert read("read_uncommitted") == ["a", "b", "c", "d", "x", "y"]

    server.restart()

    assert read("read_committed") == ["a", "b", "c", "d"]
    page = http.get(f"/topics/{topic}/partitions/0/messages").json()
    assert [message["value"] for message in page["messages"]] == ["a", "c"]


def test_http_and_kafka_producers_fence_each_other(
    server: Server, http: httpx.Client, topic: str
) -> None:
    http.post("/topics", json={"name": topic, "partitions": 1}).raise_for_status()
    by_http = identity(ask(http, "/producers/init", {"transactionalId": f"tx-{topic}"}))
    ask(http, "/transactions/begin", by_http)
    options = {"bootstrap.servers": server.bootstrap_servers, "transactional.id": f"tx-{topic}"}
    by_kafka = Producer(options)
    by_kafka.init_transactions(DEADLINE_SECONDS)
    by_kafka.begin_transaction()
    by_kafka.produce(topic, b"kafka")
    by_kafka.commit_transaction(DEADLINE_SECONDS)

    response = http.post("/transactions/commit", json=by_http)

    assert response.status_code == 409
    assert response.json()["error"]["code"] == "producer_fenced"
    page = http.get(f"/topics/{topic}/partitions/0/messages").json()
    assert [message["value"] for message in page["messages"]] == ["kafka"]
