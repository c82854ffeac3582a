"""Metrics: right, bounded, and read without holding anybody up."""

import asyncio
import gc
import threading
from collections.abc import Mapping, Sequence

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from goqueue import pace
from goqueue.broker.measuring import ages
from goqueue.broker.node import Node
from goqueue.doors.http.metrics import Exposition, bounds, exposition
from goqueue.doors.http.traffic import Traffic
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.queues import open_queues

pytestmark = pytest.mark.anyio

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


class Figures:
    def __init__(self, text: str) -> None:
        self._samples: Samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def of(self, name: str, **labels: str) -> float | None:
        """The sample with exactly these labels; None if there is none."""
        return self._samples.get((f"goqueue_{name}", tuple(sorted(labels.items()))))


async def scrape(client: httpx.AsyncClient) -> Figures:
    response = await client.get("/metrics")
    # To the letter: Prometheus 3 refuses what it cannot parse.
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Figures(response.text)


async def commit(broker: Node, group: str, topic: str, offsets: Sequence[int]) -> None:
    """One offset for each partition."""
    wanted = tuple(
        OffsetToCommit(topic=topic, partition=index, offset=offset)
        for index, offset in enumerate(offsets)
    )
    request = OffsetCommit(group_id=group, offsets=wanted)
    await BrokerService(broker).groups.commit(ANYONE, request)


async def test_partitions_and_http_requests(client: httpx.AsyncClient, orders: str) -> None:
    messages = [{"value": "x" * 100, "partition": 1}] * 7
    await client.post(f"/topics/{orders}/messages", json={"messages": messages})
    await client.get(f"/topics/{orders}/partitions/1/messages?offset=2")
    await client.get("/nowhere")

    found = await scrape(client)

    one = {"topic": orders, "partition": "1"}
    assert found.of("partition_messages_in_total", **one) == 7
    assert (found.of("partition_bytes_in_total", **one) or 0) > 700
    assert found.of("partition_messages_out_total", **one) == 5
    assert (found.of("partition_bytes_out_total", **one) or 0) > 700
    assert found.of("partition_log_end_offset", **one) == 7
    assert found.of("partition_high_watermark", **one) == 7
    assert found.of("partition_log_start_offset", **one) == 0
    assert (found.of("partition_log_size_bytes", **one) or 0) > 700
    assert found.of("partition_in_sync_replicas", **one) == 1
    assert found.of("partition_messages_in_total", topic=orders, partition="0") == 0
    assert found.of("topics") == 1
    assert found.of("partitions") == 2
    assert found.of("offline_partitions") == 0
    assert found.of("under_replicated_partitions") == 0
    assert found.of("active_controller") == 1
    assert found.of("http_connections") == 1
    assert found.of("http_requests_total", method="POST", status="201") == 1
    assert found.of("http_requests_total", method="POST", status="200") == 1
    assert found.of("http_requests_total", method="GET", status="404") == 1


async def test_requests_are_timed_by_route(client: httpx.AsyncClient, orders: str) -> None:
    # The second is the same path only after normalising, and goes through the web framework.
    for path in (f"/topics/{orders}/messages", f"/topics/{orders}/messages/"):
        await client.post(path, json={"value": 1})
    for name in (orders, "other"):
        await client.head(f"/topics/{name}")
    for path in ("/a", "/b"):
        await client.get(path)

    found = await scrape(client)

    def requests(method: str, route: str) -> float | None:
        return found.of("http_request_duration_seconds_count", method=method, route=route)

    assert requests("POST", "/topics/{name}/messages") == 2
    assert requests("HEAD", "/topics/{name}") == 2
    assert requests("GET", "unmatched") == 2
    endless = {"method": "GET", "route": "unmatched", "le": "+Inf"}
    assert found.of("http_request_duration_seconds_bucket", **endless) == 2


async def test_partitions_and_methods_are_bounded(
    client: httpx.AsyncClient, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "PARTITIONS_WITH_SERIES_MAX", 1)
    for method in ("SEARCH", "PURGE"):
        await client.request(method, "/topics")

    found = await scrape(client)

    assert found.of("partition_log_end_offset", topic=orders, partition="0") == 0
    assert found.of("partition_log_end_offset", topic=orders, partition="1") is None
    assert found.of("partitions_without_series") == 1
    assert found.of("http_requests_total", method="other", status="405") == 2


async def test_lag_of_groups(client: httpx.AsyncClient, broker: Node, orders: str) -> None:
    aged = NewRecord(value=b"", timestamp_ms=broker.clock_ms() - 90_000)
    await publish(broker, orders, [NewRecord(value=b""), aged, aged], partition=0)
    await publish(broker, orders, [NewRecord(value=b"")], partition=1)
    await commit(broker, "behind", orders, [1, 1])
    await commit(broker, "done", orders, [3, 1])

    found = await scrape(client)

    assert found.of("groups", kind="classic", state="Empty") == 2
    assert found.of("group_info", group="behind", kind="classic", state="Empty") == 1
    assert found.of("group_members", group="behind") == 0
    assert found.of("group_lag_messages", group="behind", topic=orders) == 2
    assert found.of("group_lag_messages", group="done", topic=orders) == 0
    zero = {"topic": orders, "partition": "0"}
    assert found.of("group_partition_lag_messages", group="behind", **zero) == 2
    assert found.of("group_partition_committed_offset", group="done", **zero) == 3
    # All three came in one batch, whose time is that of its newest message.
    assert found.of("group_oldest_uncommitted_age_seconds", group="done", topic=orders) == 0
    age = found.of("group_oldest_uncommitted_age_seconds", group="behind", topic=orders)
    assert age is not None
    assert 0 <= age < 60


async def test_groups_are_bounded(
    client: httpx.AsyncClient, broker: Node, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "GROUPS_WITH_SERIES_MAX", 2)
    monkeypatch.setattr(bounds, "GROUP_PARTITIONS_WITH_SERIES_MAX", 3)
    await publish(broker, orders, [NewRecord(value=b"")] * 5, partition=1)
    for group in ("a", "b", "c"):
        await commit(broker, group, orders, [0, 1])

    found = await scrape(client)

    assert found.of("groups", kind="classic", state="Empty") == 3
    assert found.of("groups_without_series") == 1
    assert found.of("group_partitions_without_series") == 1
    assert found.of("group_lag_messages", group="b", topic=orders) == 4
    assert found.of("group_lag_messages", group="c", topic=orders) is None
    labels = {"group": "b", "topic": orders, "partition": "1"}
    assert found.of("group_partition_lag_messages", **labels) is None


async def test_offsets_of_a_deleted_topic_are_left_out(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    await commit(broker, "readers", orders, [0, 0])
    await BrokerService(broker).topics.delete(ANYONE, orders)

    found = await scrape(client)

    assert found.of("group_lag_messages", group="readers", topic=orders) is None
    assert found.of("partitions_without_series") == 0


async def test_queues_by_priority(client: httpx.AsyncClient, orders: str) -> None:
    messages = [{"value": n, "partition": 0, "priority": n} for n in (1, 1, 2, 4)]
    await client.post(f"/topics/{orders}/messages", json={"messages": messages})
    polled = await client.get(f"/groups/workers/poll?topic={orders}&max=2")
    first, second = (message["receipt"] for message in polled.json()["messages"])
    await client.post("/messages/ack", json={"group": "workers", "receipts": [first]})
    nack = {"group": "workers", "receipts": [second], "delay": 60_000}
    await client.post("/messages/nack", json=nack)
    await client.get(f"/groups/workers/poll?topic={orders}&max=1")

    found = await scrape(client)

    queue = {"topic": orders, "group": "workers"}
    ready = {
        lane: found.of("queue_ready_messages", priority=lane, **queue)
        for lane in ("critical", "high", "normal", "low", "background")
    }
    assert ready == {"critical": 0, "high": 0, "normal": 0, "low": 0, "background": 1}
    assert found.of("queue_retry_wait_messages", priority="high", **queue) == 1
    assert found.of("queue_in_flight_messages", priority="normal", **queue) == 1
    assert found.of("queue_delivered_messages_total", priority="high", **queue) == 2
    assert found.of("queue_outcomes_total", outcome="accepted", **queue) == 1
    assert found.of("queue_outcomes_total", outcome="retried", **queue) == 1
    assert found.of("queue_dying_messages", **queue) == 0
    age = found.of("queue_oldest_message_age_seconds", **queue)
    assert age is not None
    assert 0 <= age < 60


async def test_queues_are_bounded(
    client: httpx.AsyncClient, broker: Node, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "QUEUES_WITH_SERIES_MAX", 1)
    for group in ("a", "b", "c"):
        await open_queues(broker, group, orders)

    found = await scrape(client)

    assert found.of("queue_dying_messages", topic=orders, group="a") == 0
    assert found.of("queue_dying_messages", topic=orders, group="b") is None
    assert found.of("queues_without_series") == 2
    assert found.of("queue_oldest_message_age_seconds", topic=orders, group="a") == 0


async def test_dead_letters_are_counted_until_their_topic_goes(
    client: httpx.AsyncClient, broker: Node, orders: str
) -> None:
    await client.post(f"/topics/{orders}/messages", json={"value": 1})
    polled = await client.get(f"/groups/workers/poll?topic={orders}")
    receipts = [message["receipt"] for message in polled.json()["messages"]]
    await client.post("/messages/reject", json={"group": "workers", "receipts": receipts})
    dead = {"dead_letter_topic": f"{orders}.dlq"}
    labels = {"topic": orders, "reason": "rejected", **dead}
    async with asyncio.timeout(60):
        while (found := await scrape(client)).of("dead_letters_total", **labels) is None:
            pass
    assert found.of("dead_letters_total", **labels) == 1
    assert found.of("dead_letters_pending", **dead) == 1

    await client.post(f"/topics/{orders}/dlq/redrive", json={})
    found = await scrape(client)
    assert found.of("dead_letters_sent_back_total", **dead) == 1
    assert found.of("dead_letters_pending", **dead) == 0

    await BrokerService(broker).topics.delete(ANYONE, f"{orders}.dlq")
    found = await scrape(client)
    assert found.of("dead_letters_total", **labels) is None
    assert found.of("dead_letters_sent_back_total", **dead) is None


async def test_a_disk_that_hangs_costs_the_ages_only(
    client: httpx.AsyncClient, broker: Node, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(broker, orders, [NewRecord(value=b"")], partition=0)
    await commit(broker, "readers", orders, [0, 0])
    is_over = threading.Event()
    monkeypatch.setattr(ages, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(ages, "_timestamps_ms", lambda _places: [None] * is_over.wait(10))
    try:
        for _ in range(2):
            found = await scrape(client)
            assert found.of("group_lag_messages", group="readers", topic=orders) == 1
            labels = {"group": "readers", "topic": orders}
            assert found.of("group_oldest_uncommitted_age_seconds", **labels) is None
    finally:
        is_over.set()


async def test_others_have_their_turn_during_a_scrape(
    broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="wide", partitions=20))
    await open_queues(broker, "workers", "wide")
    for number in range(30):
        await commit(broker, f"group-{number}", "wide", [0] * 20)
    # No slice lasts any longer than one group or one queue.
    monkeypatch.setattr(pace, "SLICE_SECONDS", 0.0)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    monkeypatch.setattr(exposition, "generate_latest", lambda _registry: b"")
    monkeypatch.setattr(ages, "LOOKS_MAX", 0)
    counting = asyncio.create_task(count_turns())
    try:
        await Exposition(BrokerService(broker), Traffic([])).render(ANYONE)
    finally:
        counting.cancel()
    assert turns >= 30 + 20


async def test_garbage_is_collected_also_while_somebody_scrapes_all_the_time(
    broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    during: list[bool] = []

    def generate(_registry: object) -> bytes:
        during.append(gc.isenabled())
        return b""

    monkeypatch.setattr(exposition, "generate_latest", generate)
    await Exposition(BrokerService(broker), Traffic([])).render(ANYONE)
    assert during == [True]
