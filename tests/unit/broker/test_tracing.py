"""Messages traced through a real broker: published, read, queued, delayed, dead-lettered."""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from crc32c import crc32c

from goqueue.broker.node import Node
from goqueue.broker.tracing.batches import UNPACKED_MAX_BYTES
from goqueue.broker.tracing.partition import ADOPTED_MAX, GROUPS_MAX
from goqueue.broker.tracing.recorder import CALLER, now_us
from goqueue.broker.tracing.tracing import QUERIES_WAITING_MAX
from goqueue.model.batch import CHECKSUMMED_FROM, CRC_POSITION, HEADER_BYTES, assign
from goqueue.model.configs import ConfigChange, ConfigResource, ConfigResourceKind
from goqueue.model.errors import InvalidConfig, Overloaded
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.log import FetchPart, Isolation
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import Settlement
from goqueue.model.queues.share import ShareFetch, ShareMember, SharePart
from goqueue.model.records import COMPRESSION_CODES, NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.model.tracing.query import FoundTraces, SpanQuery
from goqueue.model.tracing.spans import Event, MessagePlace, Span
from goqueue.service.broker_service import BrokerService
from goqueue.service.tracing import TracingService
from goqueue.state.tracing.sampling import Sampler
from tests.callers import ANYONE
from tests.publishing import publish
from tests.queues import open_queues
from tests.unit.broker.conftest import OpenBroker
from tests.unit.broker.delay_bench import cancel, open_shards, schedule

ALL = {"tracing__sampling__rate": "1"}
NONE = {"tracing__sampling__rate": "0"}
TRACE = "ab" * 16
PARENT = "cd" * 8
SAMPLED = ("traceparent", f"00-{TRACE}-{PARENT}-01".encode())
NOT_SAMPLED = ("traceparent", f"00-{TRACE}-{PARENT}-00".encode())
PUBLISHED = [
    *(Event.PUBLISH_RECEIVED, Event.PUBLISH_PARTITIONED),
    *(Event.PUBLISH_PERSISTED, Event.PUBLISH_REPLICATED),
]
ZSTD = 4


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await scenario()

    asyncio.run(bounded())


async def make_topic(broker: Node, **config: str) -> None:
    texts = {name.replace("_", "."): text for name, text in config.items()}
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name="t", partitions=1, config=texts)
    )


def traces(broker: Node) -> TracingService:
    return BrokerService(broker).tracing


def record(*headers: tuple[str, bytes], value: bytes = b"v") -> NewRecord:
    return NewRecord(value=value, headers=headers)


async def produce(broker: Node, records: Sequence[NewRecord], compression: int = 0) -> int:
    batch = encode_records(records, now_ms=broker.clock_ms(), compression=compression)
    return (
        await BrokerService(broker).log.produce(ANYONE, "t", 0, batch, acks=-1, timeout_ms=1_000)
    ).base_offset


async def fetch(broker: Node, offset: int = 0, consumer: str = "reader") -> None:
    wanted = [FetchPart("t", 0, offset, 1 << 20)]
    await BrokerService(broker).log.fetch(
        replace(ANYONE, client_id=consumer),
        wanted,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation=Isolation.READ_UNCOMMITTED,
    )


async def spans_of(broker: Node, offset: int, topic: str = "t") -> list[Span]:
    return (await traces(broker).of_message(ANYONE, MessagePlace(topic, 0, offset))).spans


async def events_of(broker: Node, offset: int) -> list[str]:
    return [span.event for span in await spans_of(broker, offset)]


async def until_event(broker: Node, offset: int, event: Event) -> list[Span]:
    while event not in await events_of(broker, offset):
        await asyncio.sleep(0.005)
    return await spans_of(broker, offset)


async def receive(broker: Node, limit: int = 1, **options: Any) -> list[Delivery]:
    request = Receive(max_messages=limit, wait_ms=5_000, start="earliest", **options)
    return await BrokerService(broker).queues.receive(ANYONE, "g", "t", request)


async def settle(
    broker: Node, delivery: Delivery, action: AckAction, delay_ms: int | None = None
) -> None:
    wanted = [Settlement(delivery.receipt, action, delay_ms)]
    await BrokerService(broker).queues.settle(ANYONE, "g", wanted)


def test_a_message_is_followed_from_publish_to_commit_also_over_a_restart(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            CALLER.set("shop")
            await make_topic(broker)
            await produce(broker, [record(), record()])
            await fetch(broker)
            committed = OffsetToCommit(topic="t", partition=0, offset=1)
            commit = OffsetCommit(group_id="cg", offsets=(committed,))
            await BrokerService(broker).groups.commit(ANYONE, commit)
            spans = await spans_of(broker, 0)
            assert [span.event for span in spans] == [
                *PUBLISHED,
                *(Event.CONSUME_FETCHED, Event.CONSUME_ACKED),
            ]
            root = spans[0]
            assert (root.consumer, root.parent_id, root.status) == ("shop", None, "ok")
            assert {span.parent_id for span in spans[1:]} == {root.span_id}
            assert len({span.trace_id for span in spans}) == 1
            assert (spans[4].consumer, spans[5].group) == ("reader", "cg")
            assert await events_of(broker, 1) == [*PUBLISHED, Event.CONSUME_FETCHED]
        async with open_broker(**ALL) as broker:
            await fetch(broker, consumer="later")
            again = await spans_of(broker, 0)
            assert [span.event for span in again[-1:]] == [Event.CONSUME_FETCHED]
            assert {span.trace_id for span in again} == {root.trace_id}
            assert len(again) == 7

    run(scenario)


def test_more_groups_than_are_followed_are_not_noted_again_and_again(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker)
            await produce(broker, [record()])
            await fetch(broker)
            trace = broker.partition("t", 0).trace
            assert trace is not None
            for _ in range(3):
                for number in range(GROUPS_MAX + 1):
                    trace.committed_by(f"g{number}", "", 1, 0)
            assert (await events_of(broker, 0)).count(Event.CONSUME_ACKED) == GROUPS_MAX

    run(scenario)


def test_a_sample_is_the_same_for_publishing_and_reading(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        settings = {"tracing__sampling__rate": "0.01", "tracing__max__messages__per__second": "0"}
        async with open_broker(**settings) as broker:
            await make_topic(broker)
            for _ in range(10):
                await produce(broker, [record()] * 500)
            trace = broker.partition("t", 0).trace
            assert trace is not None
            expected = set(Sampler(trace.key, 10_000).chosen(0, 5_000))
            assert len(expected) == 50
            await fetch(broker)
            published = SpanQuery(event="publish.received")
            for query in (published, SpanQuery(event="consume.fetched")):
                found = await traces(broker).search(ANYONE, query, 1_000)
                assert {each.offset for each in found.traces} == expected

    run(scenario)


@pytest.mark.parametrize("compression", [0, ZSTD])
def test_a_trace_is_taken_over_from_the_header(open_broker: OpenBroker, compression: int) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker)
            await produce(broker, [record(), record(NOT_SAMPLED)], compression)
            plain, taken_over = (await spans_of(broker, 0))[0], (await spans_of(broker, 1))[0]
            assert plain.trace_id != TRACE
            assert (taken_over.trace_id, taken_over.parent_id) == (TRACE, PARENT)
            assert [s.offset for s in (await traces(broker).trace(ANYONE, TRACE)).spans] == [1] * 4

    run(scenario)


def test_what_cannot_be_decoded_is_stored_and_not_traced(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker)
            batch = encode_records([record()], now_ms=0, compression=ZSTD)
            batch[HEADER_BYTES:] = b"?" * (len(batch) - HEADER_BYTES)
            crc = crc32c(bytes(batch[CHECKSUMMED_FROM:]))
            batch[CRC_POSITION:CHECKSUMMED_FROM] = crc.to_bytes(4, "big")
            stored = await BrokerService(broker).log.produce(
                ANYONE, "t", 0, batch, acks=-1, timeout_ms=1_000
            )
            assert stored.base_offset == 0
            await fetch(broker)
            assert await events_of(broker, 0) == []

    run(scenario)


@pytest.mark.parametrize("compression", [*COMPRESSION_CODES.values()][1:])
def test_only_what_unpacks_to_little_is_looked_into(
    open_broker: OpenBroker, compression: int
) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker)
            await produce(broker, [record(value=bytes(UNPACKED_MAX_BYTES // 2))], compression)
            await produce(broker, [record(value=bytes(20 * UNPACKED_MAX_BYTES))], compression)
            await fetch(broker)
            assert await events_of(broker, 0) == [*PUBLISHED, Event.CONSUME_FETCHED]
            assert await events_of(broker, 1) == []
            assert (await traces(broker).figures(ANYONE)).left_out_messages

    run(scenario)


def test_a_system_without_room_for_threads_loses_spans_and_nothing_else(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker)
            with monkeypatch.context() as patch:
                patch.setattr("goqueue.broker.tracing.export.threading.Thread.start", start)
                assert await produce(broker, [record()]) == 0
            [file] = (await traces(broker).figures(ANYONE)).exports
            assert file.dropped
            await produce(broker, [record()])
            assert (await traces(broker).figures(ANYONE)).exports[0].dropped == file.dropped

    run(scenario)


def test_a_producer_that_sampled_is_followed_within_bounds(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(**NONE, tracing__follow__max__per__second="2") as broker:
            await make_topic(broker)
            await produce(broker, [record(), record(SAMPLED), record(NOT_SAMPLED)])
            await produce(broker, [record()])
            await fetch(broker)
            found = (await traces(broker).trace(ANYONE, TRACE)).spans
            assert [(span.event, span.offset) for span in found] == [
                *((event, 1) for event in PUBLISHED),
                (Event.CONSUME_FETCHED, 1),
            ]
            assert await events_of(broker, 0) == []
            for _ in range(5):
                await produce(broker, [record(SAMPLED)])
            assert len({s.offset for s in (await traces(broker).trace(ANYONE, TRACE)).spans}) <= 5
        async with open_broker(**NONE, tracing__follow__producers="false") as broker:
            assert broker.partition("t", 0).trace is None
            before = (await traces(broker).figures(ANYONE)).recorded_spans
            await produce(broker, [record(SAMPLED)])
            assert (await traces(broker).figures(ANYONE)).recorded_spans == before

    run(scenario)


def test_a_read_of_very_many_that_are_followed_notes_some(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(**NONE, tracing__follow__max__per__second="5000") as broker:
            await make_topic(broker)
            await produce(broker, [record(SAMPLED)] * (ADOPTED_MAX + 1))
            before = await traces(broker).figures(ANYONE)
            assert before.recorded_spans == len(PUBLISHED) * (ADOPTED_MAX + 1)
            await fetch(broker)
            after = await traces(broker).figures(ANYONE)
            assert after.recorded_spans - before.recorded_spans == ADOPTED_MAX
            assert after.left_out_messages - before.left_out_messages == 1

    run(scenario)


def test_a_batch_sent_again_is_traced_once(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker)
            batch = encode_records(
                [record()], now_ms=0, producer_id=5, producer_epoch=0, base_sequence=0
            )
            for _ in range(3):
                await BrokerService(broker).log.produce(
                    ANYONE, "t", 0, batch, acks=-1, timeout_ms=1_000
                )
            assert await events_of(broker, 0) == PUBLISHED

    run(scenario)


def test_what_waits_for_the_disk_is_persisted_when_it_is_there(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker, fsync_policy="always")
            await produce(broker, [record()])
            _, _, persisted, replicated = await spans_of(broker, 0)
            assert persisted.duration_us > 0
            assert replicated.duration_us == 0
            trace = broker.partition("t", 0).trace
            assert trace is not None
            data = encode_records([record()], now_ms=0)
            assign(data, 0, 1, 0)
            trace.appended(data, 1, 2, high_watermark=1, started_us=1, admitted_us=2)
            trace.failed("the disk is gone")
            failed = (await traces(broker).search(ANYONE, SpanQuery(status="failed"), 10)).traces
            assert [each.status for each in failed] == ["failed"]

    run(scenario)


def test_too_much_is_thinned_out_and_counted(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL, tracing__max__messages__per__second="10") as broker:
            await make_topic(broker)
            await produce(broker, [record()] * 1_000)
            figures = await traces(broker).figures(ANYONE)
            assert 0 < figures.recorded_spans <= 4 * 20
            assert figures.left_out_messages >= 980
            assert figures.throttle_level > 0

    run(scenario)


def test_a_message_after_a_busy_time_is_traced_as_before_it(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL, tracing__max__messages__per__second="10") as broker:
            await make_topic(broker)
            await produce(broker, [record()] * 5_000)
            assert (await traces(broker).figures(ANYONE)).throttle_level > 5
            for module in ("partitions.admission", "tracing.partition"):
                later = f"goqueue.broker.{module}.now_us"
                monkeypatch.setattr(later, lambda: now_us() + 60_000_000)
            offset = await produce(broker, [record()])
            assert await events_of(broker, offset) == PUBLISHED

    run(scenario)


def test_switches_of_broker_and_topic(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(tracing__enabled="false") as broker:
            await make_topic(broker)
            assert broker.partition("t", 0).trace is None
        async with open_broker(**ALL) as broker:
            await BrokerService(broker).topics.alter(
                ANYONE, "t", changes=[ConfigChange(name="tracing.enabled", value="false")]
            )
            assert broker.partition("t", 0).trace is None
            await produce(broker, [record()])
            change = ConfigChange(name="topic.tracing.sampling.rate", value="0.5")
            await BrokerService(broker).administration.alter_config(
                ANYONE, ConfigResource(ConfigResourceKind.BROKER, ""), [change]
            )
            await BrokerService(broker).topics.alter(
                ANYONE, "t", changes=[ConfigChange(name="tracing.enabled", value="true")]
            )
            trace = broker.partition("t", 0).trace
            assert trace is not None
            assert trace.ppm == 500_000
            assert await events_of(broker, 0) == []
            for internal in broker.hosted:
                if internal.name.topic.startswith("__"):
                    assert internal.trace is None

    run(scenario)


def test_a_message_dies_and_is_sent_back_in_one_trace(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker, queue_max_deliveries="2", queue_retry_backoff_ms="1")
            await publish(broker, "t", [record()])
            for _ in range(2):
                [delivery] = await receive(broker)
                await settle(broker, delivery, AckAction.RETRY)
            await until_event(broker, 0, Event.DLQ_ROUTED)
        # Over a restart: which trace the dead letter belongs to is found in the files.
        async with open_broker(**ALL) as broker:
            reloading = broker.tracing._reloading
            assert reloading is not None
            await reloading
            assert (await BrokerService(broker).queues.redrive(ANYONE, "t")).sent_back == 1
            [delivery] = await receive(broker)
            await settle(broker, delivery, AckAction.ACCEPT)
            spans = await spans_of(broker, 0)
            assert [(span.event, span.topic, span.offset) for span in spans] == [
                *((event, "t", 0) for event in PUBLISHED),
                *((Event.CONSUME_FETCHED, "t", 0), (Event.CONSUME_NACKED, "t", 0)) * 2,
                (Event.DLQ_ROUTED, "t", 0),
                (Event.CONSUME_FETCHED, "t.dlq", 0),
                (Event.DLQ_REDRIVEN, "t.dlq", 0),
                (Event.CONSUME_ACKED, "t.dlq", 0),
                (Event.CONSUME_FETCHED, "t", 1),
                (Event.CONSUME_ACKED, "t", 1),
            ]
            assert len({span.trace_id for span in spans}) == 1
            routed = spans[8]
            assert (routed.reason, routed.delivery_count, routed.group) == (
                "max_deliveries",
                2,
                "g",
            )
            assert routed.linked == MessagePlace("t.dlq", 0, 0)
            assert spans[10].linked == MessagePlace("t", 0, 1)
            by_id = {span.span_id: span for span in spans}
            for fetched, nacked in (spans[4:6], spans[6:8]):
                assert nacked.parent_id is not None
                assert by_id[nacked.parent_id] == fetched
            assert await spans_of(broker, 1) == spans
            assert await spans_of(broker, 0, "t.dlq") == spans

    run(scenario)


def test_what_else_becomes_of_a_delivery(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker, queue_dead_letters="false")
            await publish(broker, "t", [record(), record(), record(("goqueue-ttl-ms", b"0"))])
            [first] = await receive(broker, lease_ms=20)
            [second] = await receive(broker)
            await settle(broker, second, AckAction.RENEW, 60_000)
            await settle(broker, second, AckAction.REJECT)
            spans = await until_event(broker, 0, Event.VISIBILITY_TIMEOUT)
            # Clocks of milliseconds: both ends may have been cut.
            assert spans[-1].duration_us >= 18_000
            assert spans[-1].delivery_count == 1
            assert await events_of(broker, 1) == [
                *(*PUBLISHED, Event.CONSUME_FETCHED),
                *(Event.VISIBILITY_EXTENDED, Event.CONSUME_REJECTED),
            ]
            [again] = await receive(broker)
            assert again.record.offset == first.record.offset
            assert again.delivery_count == 2
            await settle(broker, again, AckAction.RELEASE)
            assert (await spans_of(broker, 0))[-1].reason == "given back"
            assert await receive(broker, 10)
            assert (await events_of(broker, 2))[-1] == Event.DELAY_EXPIRED

    run(scenario)


def test_an_acknowledgement_after_a_restart_finds_its_trace(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        no_files = {"tracing__file__enabled": "false"}
        async with open_broker(**ALL, **no_files) as broker:
            await make_topic(broker)
            await publish(broker, "t", [record(NOT_SAMPLED)])
            await receive(broker)
        async with open_broker(**ALL, **no_files) as broker:
            assert await receive(broker, member="m")
            trace = broker.partition("t", 0).trace
            assert trace is not None
            trace.with_context(0, lambda context: trace.note(Event.CONSUME_ACKED, context, 0, 1))
            await until_event(broker, 0, Event.CONSUME_ACKED)
            assert {s.trace_id for s in await spans_of(broker, 0)} == {TRACE}

    run(scenario)


def test_share_groups_are_traced_by_member(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker)
            await produce(broker, [record()] * 3)
            service = BrokerService(broker)
            await open_queues(broker, "s", "t")
            wanted = ShareFetch(
                wanted=[SharePart(broker.topic("t").id, 0)],
                max_wait_ms=100,
                min_bytes=1,
                max_bytes=1 << 20,
                max_records=2,
                batch_size=10,
                is_strict=True,
            )
            [found] = await service.share_groups.fetch(ANYONE, ShareMember("s", "m1"), wanted)
            assert [each.offsets for each in found.acquired] == [(0, 2)]
            spans = await spans_of(broker, 0)
            assert (spans[-1].event, spans[-1].consumer) == (Event.CONSUME_FETCHED, "m1")
            assert (spans[-1].group, spans[-1].delivery_count) == ("s", 1)
            assert await events_of(broker, 2) == PUBLISHED

    run(scenario)


@pytest.mark.parametrize("headers", [(), (NOT_SAMPLED,)])
def test_a_delayed_message_keeps_its_trace(
    open_broker: OpenBroker, headers: tuple[tuple[str, bytes], ...]
) -> None:
    async def scenario() -> None:
        async with open_broker(**ALL) as broker:
            await make_topic(broker)
            now_ms = broker.clock_ms()
            later = [(record(*headers), now_ms + 30), (record(), now_ms + 3_600_000)]
            soon, far = await schedule(broker, "t", 0, later)
            await cancel(broker, "t", str(far))
            spans = await until_event(broker, 0, Event.DELAY_READY)
            await fetch(broker)
            assert await events_of(broker, 0) == [
                *(Event.DELAY_SCHEDULED, Event.DELAY_READY, Event.CONSUME_FETCHED)
            ]
            assert spans[0].offset is None
            assert (spans[0].trace_id == TRACE) == bool(headers)
            assert {span.delayed_id for span in spans} == {str(soon)}
            found = await traces(broker).search(ANYONE, SpanQuery(event="delay.cancelled"), 10)
            [cancelled] = found.traces
            told = (await traces(broker).trace(ANYONE, cancelled.trace_id)).spans
            assert [span.event for span in told] == [Event.DELAY_SCHEDULED, Event.DELAY_CANCELLED]

    run(scenario)


def test_delays_that_kafka_producers_ask_for(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker(**NONE) as broker:
            await make_topic(broker)
            await open_shards(broker, "t")
            delayed = record(("goqueue-delay-ms", b"20"), SAMPLED)
            await produce(broker, [record(), delayed])
            while not (found := (await traces(broker).trace(ANYONE, TRACE)).spans)[1:]:
                await asyncio.sleep(0.005)
            assert [span.event for span in found] == [Event.DELAY_SCHEDULED, Event.DELAY_READY]
            assert found[1].offset == 2

    run(scenario)


def test_an_otlp_endpoint_that_is_no_url_is_refused_at_the_start(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidConfig, match=r"tracing\.otlp\.endpoint: what is given is not"):
            async with open_broker(tracing__otlp__endpoint="localhost:4318"):
                pass

    run(scenario)


def test_an_otlp_endpoint_without_its_packages_is_refused_at_the_start(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)

    async def scenario() -> None:
        with pytest.raises(InvalidConfig, match=r"run `pip install 'goqueue\[otlp\]'`"):
            async with open_broker(tracing__otlp__endpoint="http://localhost:4318/v1/traces"):
                pass

    run(scenario)


def test_queries_stand_in_line_and_the_line_has_an_end(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            asked = [
                asyncio.create_task(traces(broker).search(ANYONE, SpanQuery(), 10))
                for _ in range(QUERIES_WAITING_MAX + 5)
            ]
            found = await asyncio.gather(*asked, return_exceptions=True)
            refused = [each for each in found if isinstance(each, Overloaded)]
            assert len(refused) == 5
            assert all(isinstance(each, Overloaded | FoundTraces) for each in found)
            assert (await traces(broker).search(ANYONE, SpanQuery(), 10)).is_complete

    asyncio.run(scenario())
