"""Topics read as queues through the broker, with real logs and restarts."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.broker.node import Node
from goqueue.broker.own_grants import OwnWork, own_group, own_read
from goqueue.broker.partitions.admission import append_now
from goqueue.broker.queues.receiving import QueueReceiving
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import PartitionOffline, TooManyInFlight, UnknownQueue
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    JOIN_EPOCH,
    Client,
    ConsumerGroupHeartbeat,
    OffsetCommit,
    OffsetToCommit,
)
from goqueue.model.queues.dead_letters import REDRIVE_GROUP, Redriven
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receipts import InvalidReceipt, Receipt, parse_receipt
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settings import DEFAULT_SETTINGS, QueueSettings
from goqueue.model.queues.settling import Settlement, settle_all
from goqueue.model.records import COMPRESSION_CODES, NewRecord, encode_records
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import NewSchema
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.queues.queues import QueueService
from tests.callers import ANYONE
from tests.loop_turns import result_and_turns
from tests.publishing import publish as store
from tests.queues import open_queues
from tests.stored_records import read_records
from tests.unit.broker.conftest import OpenBroker


async def make_topic(broker: Node, partitions: int = 1, **config: str) -> None:
    texts = {name.replace("_", "."): text for name, text in config.items()}
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name="t", partitions=partitions, config=texts)
    )


async def publish(broker: Node, *values: bytes, **headers: bytes) -> None:
    given = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    records = [NewRecord(value=value, headers=given) for value in values]
    await store(broker, "t", records)


def queues(broker: Node) -> QueueService:
    return BrokerService(broker).queues


async def receive(broker: Node, limit: int = 10, **options: Any) -> list[Delivery]:
    request = Receive(max_messages=limit, start="earliest", **options)
    return await queues(broker).receive(ANYONE, "g", "t", request)


async def take(broker: Node, group: str = "g", limit: int = 10, **options: Any) -> list[Delivery]:
    """From queues that are open."""
    request = Receive(max_messages=limit, **options)
    return await queues(broker).receive(ANYONE, group, "t", request)


def values(deliveries: Sequence[Delivery]) -> list[bytes | None]:
    return [delivery.record.value for delivery in deliveries]


async def acknowledge(
    broker: Node, delivery: Delivery, action: AckAction, delay_ms: int | None = None
) -> QueueError:
    receipt = parse_receipt(str(delivery.receipt))
    wanted = [Settlement(receipt, action, delay_ms)]
    [settled] = await queues(broker).settle(ANYONE, "g", wanted)
    assert isinstance(settled, QueueError)
    return settled


async def dead_letters(
    broker: Node, topic: str = "t.dlq"
) -> list[tuple[bytes | None, dict[str, bytes | None]]]:
    while topic not in broker.image.topics or not broker.partition(topic, 0).high_watermark:
        await asyncio.sleep(0.005)
    page = await read_records(broker, topic, 0, 0, limit=100)
    return [(record.value, dict(record.headers)) for record in page.records]


def test_acknowledged_messages_never_come_back_and_others_do(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"a", b"b", b"c")
            first = await receive(broker, 2)
            assert values(first) == [b"a", b"b"]
            assert [delivery.delivery_count for delivery in first] == [1, 1]
            assert await acknowledge(broker, first[0], AckAction.ACCEPT) is QueueError.NONE
            assert values(await receive(broker)) == [b"c"]
            assert await receive(broker) == []
        async with open_broker() as broker:
            again = await receive(broker)
            assert values(again) == [b"b", b"c"]
            assert [delivery.delivery_count for delivery in again] == [2, 2]

    asyncio.run(scenario())


def test_competing_readers_share_one_partition_and_log_readers_see_all(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, *(b"%d" % n for n in range(30)))
            await open_queues(broker, "g", "t")
            taken = await asyncio.gather(*(take(broker, member=f"m{n}") for n in range(3)))
            offsets = sorted(d.record.offset for deliveries in taken for d in deliveries)
            assert offsets == list(range(30))
            assert len((await read_records(broker, "t", 0, 0, limit=100)).records) == 30

    asyncio.run(scenario())


def test_a_lease_that_runs_out_gives_the_message_to_the_next(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"a")
            [first] = await receive(broker, lease_ms=30)
            [second] = await receive(broker, wait_ms=5_000)
            assert (second.record.offset, second.delivery_count) == (0, 2)
            error = await acknowledge(broker, first, AckAction.ACCEPT)
            assert error is QueueError.RECEIPT_REDELIVERED
            assert await acknowledge(broker, second, AckAction.ACCEPT) is QueueError.NONE
            error = await acknowledge(broker, second, AckAction.ACCEPT)
            assert error is QueueError.RECEIPT_SETTLED

    asyncio.run(scenario())


def test_a_nacked_message_waits_and_an_extended_lease_holds(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, queue_retry_backoff_ms="40")
            await publish(broker, b"a")
            [first] = await receive(broker)
            started_ms = broker.clock_ms()
            assert await acknowledge(broker, first, AckAction.RETRY) is QueueError.NONE
            [second] = await receive(broker, wait_ms=5_000, lease_ms=30)
            assert broker.clock_ms() - started_ms >= 40
            assert await acknowledge(broker, second, AckAction.RENEW, 60_000) is QueueError.NONE
            assert await receive(broker, wait_ms=80) == []

    asyncio.run(scenario())


def test_rejected_and_exhausted_messages_are_dead_letters(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, queue_max_deliveries="2")
            await publish(broker, b"poison", b"fine", trace=b"7")
            poison, fine = await receive(broker)
            assert await acknowledge(broker, poison, AckAction.REJECT) is QueueError.NONE
            [(value, headers)] = await dead_letters(broker)
            assert value == b"poison"
            assert headers["trace"] == b"7"
            assert headers["goqueue-dlq-topic"] == b"t"
            assert headers["goqueue-dlq-offset"] == b"0"
            assert headers["goqueue-dlq-group"] == b"g"
            assert headers["goqueue-dlq-delivery-count"] == b"1"
            assert headers["goqueue-dlq-reason"] == b"rejected"
            assert await acknowledge(broker, fine, AckAction.RELEASE) is QueueError.NONE
            [fine] = await receive(broker, wait_ms=5_000)
            assert await acknowledge(broker, fine, AckAction.RELEASE) is QueueError.NONE
            while broker.partition("t.dlq", 0).high_watermark < 2:
                await asyncio.sleep(0.005)
            assert (await dead_letters(broker))[1][1]["goqueue-dlq-reason"] == b"max_deliveries"
            assert await receive(broker) == []
        async with open_broker() as broker:
            assert await receive(broker) == []
            assert broker.partition("t.dlq", 0).high_watermark == 2

    asyncio.run(scenario())


def test_a_waiting_reader_is_woken_by_a_message(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions=3)
            waiting = asyncio.create_task(receive(broker, wait_ms=30_000))
            while not any(broker.partition("t", index).waiters for index in range(3)):
                await asyncio.sleep(0.001)
            await publish(broker, b"now")
            assert values(await asyncio.wait_for(waiting, 25)) == [b"now"]

    asyncio.run(scenario())


async def wait_in_line(broker: Node, count: int, *, aside: int = 0) -> None:
    lines = broker.queues.lines._lines
    async with asyncio.timeout(30):
        while [
            sum(len(line.members) for line in lines.values()),
            sum(len(line.aside) for line in lines.values()),
        ] != [count, aside]:
            await asyncio.sleep(0.001)


async def have_looked(looks: list[Receive], count: int) -> None:
    """They stand in line before they look."""
    async with asyncio.timeout(30):
        while len(looks) < count:
            await asyncio.sleep(0.001)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Receive]:
    """The requests that looked at partitions."""
    seen: list[Receive] = []
    look = QueueReceiving.sweep

    async def counted(*arguments: Any) -> Any:
        seen.append(arguments[-1])
        return await look(*arguments)

    monkeypatch.setattr(QueueReceiving, "sweep", counted)
    return seen


def test_a_message_wakes_one_reader_and_many_messages_wake_many(
    open_broker: OpenBroker, looks: list[Receive]
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            waiting = {asyncio.create_task(receive(broker, 1, wait_ms=60_000)) for _ in range(20)}
            await have_looked(looks, 20)
            await wait_in_line(broker, 20)
            looks.clear()
            await publish(broker, b"first")
            done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert [values(task.result()) for task in done] == [[b"first"]]
            # The one that was woken, and the next, which finds nothing more.
            await have_looked(looks, 2)
            await wait_in_line(broker, 19)
            assert len(looks) == 2
            # One that goes away hands on what it was woken for.
            gone = rest.pop()
            await publish(broker, *(b"%d" % n for n in range(18)))
            gone.cancel()
            found, late = await asyncio.wait(rest, timeout=30)
            assert not late
            assert {values(task.result())[0] for task in found} == {b"%d" % n for n in range(18)}
            assert not broker.queues.lines._lines
            assert not broker.partition("t", 0).waiters

    asyncio.run(scenario())


def test_a_reader_that_has_all_it_may_have_lets_others_look(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, queue_max_in_flight_per_consumer="1")
            await publish(broker, b"a")
            assert values(await receive(broker, member="full")) == [b"a"]
            full = asyncio.create_task(receive(broker, member="full", wait_ms=60_000))
            await wait_in_line(broker, 0, aside=1)
            other = asyncio.create_task(receive(broker, member="other", wait_ms=60_000))
            await wait_in_line(broker, 1, aside=1)
            await publish(broker, b"b")
            assert values(await asyncio.wait_for(other, 30)) == [b"b"]
            full.cancel()

    asyncio.run(scenario())


def test_readers_that_have_all_they_may_have_look_once_for_a_message(
    open_broker: OpenBroker, looks: list[Receive]
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, queue_max_in_flight_per_consumer="1")
            await publish(broker, b"0", b"1", b"2")
            held = [(await receive(broker, 1, member=f"m{n}"))[0] for n in range(3)]
            waiting = [
                asyncio.create_task(receive(broker, member=f"m{n}", wait_ms=60_000))
                for n in range(3)
            ]
            await wait_in_line(broker, 0, aside=3)
            looks.clear()
            await publish(broker, b"3")
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert sorted(str(look.member) for look in looks) == ["m0", "m1", "m2"]
            # Room for one is noticed at once.
            assert await acknowledge(broker, held[1], AckAction.ACCEPT) is QueueError.NONE
            assert values(await asyncio.wait_for(waiting[1], 30)) == [b"3"]
            for each in waiting:
                each.cancel()

    asyncio.run(scenario())


def test_a_reader_that_became_full_hands_on_what_it_was_woken_for(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, queue_max_in_flight_per_consumer="1")

            async def wait(member: str, count: int) -> "asyncio.Task[list[Delivery]]":
                task = asyncio.create_task(receive(broker, member=member, wait_ms=60_000))
                await wait_in_line(broker, count)
                return task

            first = await wait("twice", 1)
            other = await wait("other", 2)
            second = await wait("twice", 3)
            await publish(broker, b"a")
            assert values(await asyncio.wait_for(first, 30)) == [b"a"]
            # `other` looked in vain and stands behind `second`, which may not have more.
            await wait_in_line(broker, 2)
            await publish(broker, b"b")
            assert values(await asyncio.wait_for(other, 30)) == [b"b"]
            second.cancel()

    asyncio.run(scenario())


def test_all_who_wait_hear_of_a_partition_that_fails(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            waiting = [asyncio.create_task(receive(broker, wait_ms=60_000)) for _ in range(3)]
            await wait_in_line(broker, 3)
            broker.partition("t", 0).hosted.go_offline(PartitionOffline("bad sector"))
            async with asyncio.timeout(30):
                found = await asyncio.gather(*waiting, return_exceptions=True)
            assert [str(error) for error in found] == ["bad sector"] * 3

    asyncio.run(scenario())


def test_messages_behind_expired_ones_are_not_waited_for(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"stale", b"stale", goqueue_ttl_ms=b"0")
            await publish(broker, b"fresh")
            async with asyncio.timeout(30):
                assert values(await receive(broker, 1, wait_ms=60_000)) == [b"fresh"]

    asyncio.run(scenario())


def test_queues_and_topics_have_the_same_defaults(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            assert broker.queues.registry.settings_of(broker.topic("t")) == DEFAULT_SETTINGS

    asyncio.run(scenario())


@pytest.mark.parametrize("restart", [False, True])
def test_a_critical_message_overtakes_the_backlog(open_broker: OpenBroker, restart: bool) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, *(b"normal" for _ in range(5_000)))
            await publish(broker, b"critical", goqueue_priority=b"critical")
            await publish(broker, b"background", goqueue_priority=b"4")
            if not restart:
                assert values(await receive(broker, 1)) == [b"critical"]
        if restart:
            async with open_broker() as broker:
                assert values(await receive(broker, 1)) == [b"critical"]

    asyncio.run(scenario())


def test_messages_past_their_time_are_not_delivered(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"stale", goqueue_ttl_ms=b"0")
            await publish(broker, b"fresh", goqueue_ttl_ms=b"60000")
            assert values(await receive(broker)) == [b"fresh"]
            assert "t.dlq" not in broker.image.topics

    asyncio.run(scenario())


def test_aborted_and_open_transactions_are_not_delivered(open_broker: OpenBroker) -> None:
    def transactional(producer_id: int, value: bytes) -> bytearray:
        return encode_records(
            [NewRecord(value=value)],
            now_ms=1_700_000_000_000,
            is_transactional=True,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )

    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            partition = broker.partition("t", 0)
            append_now(partition, transactional(1, b"aborted"))
            append_now(partition, transactional(2, b"open"))
            await publish(broker, b"plain")
            partition.append_marker(
                Marker(MarkerType.ABORT, 0), producer_id=1, producer_epoch=0, bumps_epoch=False
            )
            assert await receive(broker) == []
            partition.append_marker(
                Marker(MarkerType.COMMIT, 0), producer_id=2, producer_epoch=0, bumps_epoch=False
            )
            assert values(await receive(broker)) == [b"open", b"plain"]

    asyncio.run(scenario())


def test_fifo_readers_get_a_group_in_order_one_at_a_time(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            records = [
                NewRecord(key=key, value=value)
                for key, value in [(b"x", b"x1"), (b"x", b"x2"), (b"y", b"y1"), (b"x", b"x3")]
            ]
            await store(broker, "t", records)
            await open_queues(broker, "g", "t")

            [first] = await take(broker, limit=1, in_order=True)
            assert values([first]) == [b"x1"]
            [other] = await take(broker, in_order=True)
            assert values([other]) == [b"y1"]
            assert await take(broker, in_order=True) == []
            await acknowledge(broker, first, AckAction.RELEASE)
            assert values(await take(broker, in_order=True)) == [b"x1", b"x2", b"x3"]

    asyncio.run(scenario())


def test_fifo_readers_at_the_same_time_do_not_share_a_group(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await store(broker, "t", [NewRecord(key=b"x", value=b"%d" % n) for n in range(20)])
            await open_queues(broker, "g", "t")
            taken = await asyncio.gather(*(take(broker, limit=5, in_order=True) for _ in range(4)))
            assert values([d for found in taken for d in found]) == [b"0", b"1", b"2", b"3", b"4"]

    asyncio.run(scenario())


def test_a_dead_letter_lets_the_rest_of_its_group_go_on(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await store(broker, "t", [NewRecord(key=b"x", value=value) for value in (b"1", b"2")])
            settings = QueueSettings(lease_ms=50, max_deliveries=1)
            await open_queues(broker, "g", "t", settings=settings)
            [first] = await take(broker, limit=1, in_order=True)
            assert values([first]) == [b"1"]
            # Its lease ends, which was its last one; the reader that waits gets the next.
            found = await take(broker, limit=1, in_order=True, wait_ms=10_000)
            assert values(found) == [b"2"]

    asyncio.run(scenario())


def test_a_message_whose_lease_ended_can_be_taken_back(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"one")
            [first] = await receive(broker, 1)
            group = own_group("g", OwnWork.MOVE_TASK)
            topic = own_read("t", OwnWork.MOVE_TASK)
            receiving = broker.queues.receiving
            assert await receiving.take_back(group, topic, first.receipt) is None
            await acknowledge(broker, first, AckAction.RELEASE)
            again = await receiving.take_back(group, topic, first.receipt)
            assert again is not None
            assert again.delivery_count == 2
            assert await take(broker, limit=1) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("outlives_lease", [False, True])
@pytest.mark.parametrize("remembers", [False, True])
def test_the_last_receipt_of_a_message_may_settle_it_after_its_time(
    open_broker: OpenBroker, outlives_lease: bool, remembers: bool
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"one")
            [older] = await receive(broker, 1, remembers=remembers)
            await acknowledge(broker, older, AckAction.RELEASE)
            [last] = await receive(broker, 1, remembers=remembers)
            await acknowledge(broker, last, AckAction.RELEASE)
            settled = await queues(broker).settle(
                ANYONE,
                "g",
                settle_all([older.receipt, last.receipt], AckAction.ACCEPT),
                outlives_lease=outlives_lease,
            )
            assert settled == [
                QueueError.RECEIPT_REDELIVERED,
                QueueError.NONE if outlives_lease else QueueError.RECEIPT_EXPIRED,
            ]
            assert values(await take(broker)) == ([] if outlives_lease else [b"one"])

    asyncio.run(scenario())


def test_the_last_receipt_of_a_message_may_settle_it_after_a_restart(
    open_broker: OpenBroker,
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"one", b"two")
            one, two = await receive(broker, 2, remembers=True)
        async with open_broker() as broker:
            [again] = await take(broker, limit=1, remembers=True)
            assert again.record.offset == one.record.offset
            settled = await queues(broker).settle(
                ANYONE,
                "g",
                settle_all([one.receipt, two.receipt], AckAction.ACCEPT),
                outlives_lease=True,
            )
            # The first has another reader by now, the second has not.
            assert settled == [QueueError.RECEIPT_REDELIVERED, QueueError.NONE]
            assert await take(broker) == []
            await acknowledge(broker, again, AckAction.RELEASE)
            assert values(await take(broker)) == [b"one"]

    asyncio.run(scenario())


def test_another_receipt_that_is_remembered_is_the_last_one(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"one")
            [taken] = await receive(broker, 1, remembers=True)
            await acknowledge(broker, taken, AckAction.RELEASE)
            forged = taken.receipt._replace(lease_id=taken.receipt.lease_id ^ 1)
            wanted = settle_all([forged], AckAction.ACCEPT)
            [settled] = await queues(broker).settle(ANYONE, "g", wanted, outlives_lease=True)
            assert settled is QueueError.RECEIPT_EXPIRED
            assert values(await take(broker)) == [b"one"]

    asyncio.run(scenario())


def test_a_message_tells_when_it_was_first_received(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"one")
            [first] = await receive(broker, 1, remembers=True, lease_ms=10)
            [again] = await receive(broker, 1, remembers=True, wait_ms=5_000)
            assert first.first_received_ms is not None
            assert again.first_received_ms == first.first_received_ms
            await acknowledge(broker, again, AckAction.RELEASE)
            [silent] = await receive(broker, 1)
            assert silent.first_received_ms is None

    asyncio.run(scenario())


def test_receipts_of_many_partitions_are_settled_each_by_itself(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions=3)
            for index in range(3):
                await store(broker, "t", [NewRecord(value=b"%d" % index)], partition=index)
            found = sorted(await receive(broker), key=lambda delivery: delivery.partition)
            receipts = [delivery.receipt for delivery in found]
            receipts[1] = receipts[1]._replace(lease_id=receipts[1].lease_id ^ 1)
            broker.partition("t", 2).hosted.go_offline(PartitionOffline("bad sector"))
            settled = await queues(broker).settle(
                ANYONE, "g", settle_all(receipts, AckAction.ACCEPT)
            )
            assert settled[:2] == [QueueError.NONE, QueueError.RECEIPT_UNKNOWN]
            # The queue's own state is not in the partition that failed.
            assert settled[2] is QueueError.NONE
            [unknown] = await queues(broker).settle(
                ANYONE, "nobody", settle_all(receipts[:1], AckAction.ACCEPT)
            )
            assert isinstance(unknown, UnknownQueue)

    asyncio.run(scenario())


def test_a_reader_is_told_that_too_much_is_in_flight(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, queue_max_in_flight="2")
            await publish(broker, b"a", b"b", b"c")
            assert len(await receive(broker, refuses_when_full=True)) == 2
            assert await receive(broker) == []
            with pytest.raises(TooManyInFlight, match="2"):
                await receive(broker, refuses_when_full=True)

    asyncio.run(scenario())


def test_a_new_group_begins_where_it_says_and_can_be_reset(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"old")
            await open_queues(broker, "late", "t", start="latest")
            await publish(broker, b"new")
            assert values(await take(broker, "late")) == [b"new"]
            late = own_group("late", OwnWork.MOVE_TASK)
            await broker.queues.reset(late, own_read("t", OwnWork.MOVE_TASK), 0, 0)
            assert values(await take(broker, "late")) == [b"old", b"new"]
            registry = broker.queues.registry
            assert [key.group for key in registry.list_queues()] == ["late"]
            await BrokerService(broker).topics.delete(ANYONE, "t")
            while registry.list_queues():
                await asyncio.sleep(0.005)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "handle",
    ["", "x", "t:0:0:1", "t:0:0:1:zz", "../t:0:0:1:0000000000000000", "t:-1:0:1:" + "0" * 16],
)
def test_handles_of_another_form_are_refused(handle: str) -> None:
    with pytest.raises(InvalidReceipt, match="receipt"):
        parse_receipt(handle)


def test_a_forged_receipt_changes_nothing(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"a")
            [delivery] = await receive(broker)
            forged = Receipt("t", 0, 0, 1, delivery.lease_id ^ 1)
            wanted = [Settlement(forged, AckAction.ACCEPT)]
            settled = await queues(broker).settle(ANYONE, "g", wanted)
            assert settled == [QueueError.RECEIPT_UNKNOWN]
            assert await acknowledge(broker, delivery, AckAction.ACCEPT) is QueueError.NONE

    asyncio.run(scenario())


def test_an_offline_partition_costs_the_others_nothing(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions=2)
            for index in range(2):
                await store(broker, "t", [NewRecord(value=b"%d" % index)], partition=index)
            await open_queues(broker, "g", "t")
            broker.partition("t", 1).hosted.go_offline(PartitionOffline("bad sector"))
            [found] = await receive(broker)
            assert (found.record.value, found.delivery_count) == (b"0", 1)
            assert await receive(broker) == []
            broker.partition("t", 0).hosted.go_offline(PartitionOffline("bad sector"))
            with pytest.raises(PartitionOffline, match="bad sector"):
                await receive(broker)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "value"),
    [("goqueue-delay-ms", b"60000"), ("goqueue-delay-ms", b"soon"), ("goqueue-priority", b"?")],
)
def test_headers_that_came_compressed_do_not_keep_a_message_from_the_dead_letters(
    open_broker: OpenBroker, name: str, value: bytes
) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(45), open_broker() as broker:
            await make_topic(broker)
            poison = NewRecord(value=b"poison", headers=((name, value), ("own", b"kept")))
            zstd = COMPRESSION_CODES["zstd"]
            batch = encode_records([poison], now_ms=broker.clock_ms(), compression=zstd)
            await BrokerService(broker).log.produce(
                ANYONE, "t", 0, batch, acks=-1, timeout_ms=1_000
            )
            [delivery] = await receive(broker)
            assert await acknowledge(broker, delivery, AckAction.REJECT) is QueueError.NONE
            [(copied, headers)] = await dead_letters(broker)
            assert (copied, headers["own"], name in headers) == (b"poison", b"kept", False)
            assert await queues(broker).redrive(ANYONE, "t") == Redriven(1, 0)
            assert values(await receive(broker)) == [b"poison"]

    asyncio.run(scenario())


def test_a_dead_letter_that_could_not_be_written_is_tried_again(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"poison")
            [poison] = await receive(broker)
            store_for_real = broker.publishing.store_led
            failed = asyncio.Event()

            async def refuse(*_: object, **__: object) -> None:
                failed.set()
                monkeypatch.setattr(broker.publishing, "store_led", store_for_real)
                raise PartitionOffline("disk full")

            monkeypatch.setattr(broker.publishing, "store_led", refuse)
            await acknowledge(broker, poison, AckAction.REJECT)
            await failed.wait()
            assert [value for value, _ in await dead_letters(broker)] == [b"poison"]

    asyncio.run(scenario())


def test_a_redrive_does_not_believe_whoever_wrote_the_header(open_broker: OpenBroker) -> None:
    """Only topics whose dead letters come here are written to."""

    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            topics = BrokerService(broker).topics
            for name in ("t.dlq", "victim"):
                await topics.create(ANYONE, NewTopic(name=name, partitions=1))
            forged = NewRecord(value=b"forged", headers=(("goqueue-dlq-topic", b"victim"),))
            await store(broker, "t.dlq", [forged])
            assert await queues(broker).redrive(ANYONE, "t") == Redriven(sent_back=0, gone=1)
            assert broker.partition("victim", 0).high_watermark == 0
            assert broker.partition("t", 0).high_watermark == 0

    asyncio.run(scenario())


def test_a_redrive_that_fails_gives_back_what_it_has(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one must not take what is in the hands of nobody for sent back."""

    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t.dlq", partitions=1))
            said = (("goqueue-dlq-topic", b"t"),)
            letters = [NewRecord(value=value, headers=said) for value in (b"a", b"b", b"c")]
            await store(broker, "t.dlq", letters)
            publish_for_real = broker.publishing.publish

            async def refuse(*args: Any, **options: Any) -> Any:
                [record] = args[1]
                if record.value == b"b":
                    return [PartitionOffline("disk full")]
                return await publish_for_real(*args, **options)

            with monkeypatch.context() as patches:
                patches.setattr(broker.publishing, "publish", refuse)
                with pytest.raises(PartitionOffline):
                    await queues(broker).redrive(ANYONE, "t")
            assert await queues(broker).redrive(ANYONE, "t") == Redriven(sent_back=2, gone=0)
            assert values(await receive(broker)) == [b"a", b"b", b"c"]

    asyncio.run(scenario())


def test_a_redrive_tells_what_is_in_the_hands_of_another(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t.dlq", partitions=1))
            said = (("goqueue-dlq-topic", b"t"),)
            await store(broker, "t.dlq", [NewRecord(value=b"a", headers=said)])
            # As one whose broker was killed.
            group = own_group(REDRIVE_GROUP, OwnWork.REDRIVE)
            letters = own_read("t.dlq", OwnWork.REDRIVE)
            request = Receive(max_messages=1, until_empty=True)
            assert await broker.queues.receive(group, letters, request)
            assert await queues(broker).redrive(ANYONE, "t") == Redriven(0, 0, held=1)

    asyncio.run(scenario())


def test_a_redrive_asks_the_schemas_of_the_topic(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            service = BrokerService(broker)
            await make_topic(broker, schema_validation_value="content")
            text = '{"type": "object", "properties": {"id": {"type": "string"}}}'
            await service.schemas.register(ANYONE, "t-value", NewSchema(SchemaType.JSON, text))
            await service.topics.create(ANYONE, NewTopic(name="t.dlq", partitions=1))
            said = (("goqueue-dlq-topic", b"t"),)
            letters = [NewRecord(value=v, headers=said) for v in (b'{"id": 1}', b'{"id": "a"}')]
            await store(broker, "t.dlq", letters)
            assert await queues(broker).redrive(ANYONE, "t") == Redriven(sent_back=1, gone=1)
            assert values(await receive(broker)) == [b'{"id": "a"}']

    asyncio.run(scenario())


def test_a_redrive_leaves_out_what_has_a_mark(open_broker: OpenBroker) -> None:
    """Somebody else sent it back, and wrote the mark in the same transaction."""

    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            topics = BrokerService(broker).topics
            await topics.create(ANYONE, NewTopic(name="t.dlq", partitions=1))
            letters = broker.topic("t.dlq")
            said = (("goqueue-dlq-topic", b"t"),)
            await store(broker, "t.dlq", [NewRecord(value=v, headers=said) for v in (b"a", b"b")])
            await topics.create(ANYONE, NewTopic(name="t.dlq.redriven", partitions=1))
            keys = [
                f"{letters.id}/0/0",
                f"{broker.topic('t').id}/0/1",
                "redrive",
                f"{letters.id}/0/x",
            ]
            marks = [NewRecord(key=key.encode(), value=b"redrive.1") for key in keys]
            await store(broker, "t.dlq.redriven", marks)
            listed = await queues(broker).dead_letters(ANYONE, "t", limit=10)
            assert [each.record.value for each in listed] == [b"b"]
            assert await queues(broker).redrive(ANYONE, "t", limit=1) == Redriven(1, 0)
            assert values(await receive(broker)) == [b"b"]
            assert await queues(broker).dead_letters(ANYONE, "t", limit=10) == []
            assert broker.partition("t.dlq.redriven", 0).high_watermark == len(keys) + 1

    asyncio.run(scenario())


def test_a_redrive_passes_letters_whose_topic_is_gone(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t.dlq", partitions=1))
            letters = [
                NewRecord(value=source, headers=(("goqueue-dlq-topic", source),))
                for source in [b"gone"] * 150 + [b"t"] * 3
            ]
            await store(broker, "t.dlq", letters)
            assert await queues(broker).redrive(ANYONE, "t") == Redriven(sent_back=3, gone=150)
            assert values(await receive(broker)) == [b"t"] * 3
            assert await queues(broker).redrive(ANYONE, "t") == Redriven(sent_back=0, gone=150)

    asyncio.run(scenario())


def test_others_get_their_turn_while_very_many_queues_are_described(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.pace.SLICE_SECONDS", 0.0)
    partitions = 50

    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions)
            await open_queues(broker, "g", "t")
            described, turns = await result_and_turns(queues(broker).describe_all(ANYONE))
            assert len(described.queues) == partitions
            assert turns >= partitions - 1

    asyncio.run(scenario())


def test_a_list_of_dead_letters_ends_after_some_megabytes(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await BrokerService(broker).topics.create(ANYONE, NewTopic(name="t.dlq", partitions=2))
            for _ in range(12):
                await store(broker, "t.dlq", [NewRecord(value=b"x" * 900_000)])
            found = await queues(broker).dead_letters(ANYONE, "t", limit=1_000)
            listed_bytes = sum(len(letter.record.value or b"") for letter in found)
            assert 4_000_000 < listed_bytes < 6_000_000

    asyncio.run(scenario())


def test_others_get_their_turn_while_a_wide_topic_is_looked_through(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.broker.queues.receiving.SLICE_PARTITIONS", 1)
    partitions = 50

    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, partitions)
            await open_queues(broker, "g", "t")
            received, turns = await result_and_turns(receive(broker))
            assert received == []
            assert turns >= partitions - 1

    asyncio.run(scenario())


def test_a_look_that_need_not_wait_makes_no_task(open_broker: OpenBroker) -> None:
    """Most looks of readers that poll find nothing, and a task costs half as much again."""

    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            assert await receive(broker) == []
            made: list[asyncio.Task[Any]] = []
            loop = asyncio.get_running_loop()

            def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
                task = asyncio.Task(work, loop=loop, **options)
                made.append(task)
                return task

            loop.set_task_factory(make)
            assert await receive(broker) == []
            loop.set_task_factory(None)
            assert made == []

    asyncio.run(scenario())


def test_a_group_is_deleted_with_its_queues_and_begins_anew(open_broker: OpenBroker) -> None:
    async def drain(broker: Node) -> int:
        taken = await receive(broker)
        for each in taken:
            assert await acknowledge(broker, each, AckAction.ACCEPT) is QueueError.NONE
        return len(taken)

    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker, 2)
            await publish(broker, b"a", b"b")
            groups = BrokerService(broker).groups
            assert await drain(broker) == 2
            # It also has offsets, and so is no group of queues alone.
            offset = OffsetToCommit(topic="t", partition=0, offset=1)
            await groups.commit(ANYONE, OffsetCommit(group_id="g", offsets=(offset,)))
            assert (await groups.delete(ANYONE, "g")).error is GroupError.NONE
            assert broker.queues.registry.list_queues() == []
            assert await drain(broker) == 2
            await groups.find_and_delete(ANYONE, "g")
        async with open_broker() as broker:
            assert broker.queues.registry.list_queues() == []
            assert await drain(broker) == 2
            found = await BrokerService(broker).groups.delete(ANYONE, "other")
            assert found.error is GroupError.GROUP_ID_NOT_FOUND
            assert await drain(broker) == 0

    asyncio.run(scenario())


def test_who_waits_is_told_that_its_group_was_deleted(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            waiting = asyncio.create_task(receive(broker, wait_ms=60_000))
            while not broker.queues.registry.list_queues():
                await asyncio.sleep(0)
            await BrokerService(broker).groups.find_and_delete(ANYONE, "g")
            await publish(broker, b"a")
            with pytest.raises(UnknownQueue, match="'g' has no queue of t-0"):
                await asyncio.wait_for(waiting, 30)
            assert [each.record.value for each in await receive(broker)] == [b"a"]

    asyncio.run(scenario())


def test_a_group_with_members_keeps_its_queues(open_broker: OpenBroker) -> None:
    async def scenario() -> None:
        async with open_broker() as broker:
            await make_topic(broker)
            await publish(broker, b"a")
            assert len(await receive(broker)) == 1
            groups = BrokerService(broker).groups
            beat = ConsumerGroupHeartbeat(
                group_id="g",
                member_id="m",
                member_epoch=JOIN_EPOCH,
                rebalance_timeout_ms=60_000,
                subscribed_topics=("t",),
                owned={},
                client=Client(client_id="test"),
            )
            await groups.consumer_heartbeat(ANYONE, beat)
            assert (await groups.delete(ANYONE, "g")).error is GroupError.NON_EMPTY_GROUP
            assert len(broker.queues.registry.list_queues()) == 1

    asyncio.run(scenario())
