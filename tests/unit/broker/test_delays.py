"""Delayed messages: scheduled, listed, cancelled, delivered in order, found again."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from goqueue.broker.delays import indexed as indexed_delays
from goqueue.broker.delays import open_indexes
from goqueue.broker.delays import shard as delay_shard
from goqueue.broker.delays.delivery import DelayDelivery
from goqueue.broker.delays.index import FILE_NAME
from goqueue.broker.node import Node
from goqueue.model.companions import DELAYED, companion_of
from goqueue.model.configs import ConfigResource, ConfigResourceKind
from goqueue.model.delays import DelayedId
from goqueue.model.errors import (
    InvalidRecord,
    InvalidRequest,
    PartitionOffline,
    PolicyViolation,
    RecordTooLarge,
    TooLateToCancel,
    UnknownDelayedMessage,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.delay_bench import (
    START_MS,
    TOPIC,
    Clock,
    advance,
    cancel,
    list_pending,
    message,
    open_shards,
    running,
    schedule,
    shards,
    stats,
    stored,
    until,
    until_end,
    values,
    with_topic,
)

DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def _indexes_are_worth_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a few messages: they are much of what is tested here."""
    monkeypatch.setattr(indexed_delays, "INDEX_WORTH_RECORDS", 1)


def test_messages_arrive_when_due_and_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            due = [300, 100, 200, 100, 1_000]
            await schedule(
                broker,
                TOPIC,
                0,
                [(message(b"%d" % at), START_MS + ms) for at, ms in enumerate(due)],
            )
            await advance(broker, clock, 99)
            assert await values(broker) == []
            await advance(broker, clock, 121)
            await until_end(broker, 3)
            assert await values(broker) == [b"1", b"3", b"2"]
            await advance(broker, clock, 10_000)
            await until_end(broker, 5)
            assert await values(broker) == [b"1", b"3", b"2", b"0", b"4"]

    asyncio.run(scenario())


def test_a_message_is_delivered_whole_with_the_time_of_its_delivery(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            sent = [
                message(None, key=b"k", headers=(("a", b"1"), ("a", None)), timestamp_ms=5),
                message(b"", key=b"", headers=()),
                message(b"v", key=None),
            ]
            await schedule(broker, TOPIC, 0, [(record, START_MS + 50) for record in sent])
            await advance(broker, clock, 1_000)
            await until_end(broker, 3)
            found = await stored(broker)
            assert [(r.key, r.value, r.headers) for r in found] == [
                (r.key, r.value, r.headers) for r in sent
            ]
            assert {record.timestamp_ms for record in found} == {clock.now_ms}

    asyncio.run(scenario())


def test_what_is_due_already_comes_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            await schedule(broker, TOPIC, 0, [(message(b"past"), START_MS - 5_000)])
            clock.now_ms += 20
            broker.delays.wake()
            await until_end(broker, 1)

    asyncio.run(scenario())


def test_pending_messages_survive_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker, partitions=3)
            for partition in range(3):
                for at in range(4):
                    when = START_MS + (at + 1) * 60_000
                    value = b"%d-%d" % (partition, at)
                    await schedule(broker, TOPIC, partition, [(message(value), when)])
            await advance(broker, clock, 61_000)
            for partition in range(3):
                await until_end(broker, 1, partition)
        clock.now_ms += 60_000
        async with running(tmp_path, clock) as broker:
            assert stats(broker).pending <= 9
            await advance(broker, clock, 200_000)
            for partition in range(3):
                await until_end(broker, 4, partition)
                assert await values(broker, partition) == [
                    b"%d-%d" % (partition, n) for n in range(4)
                ]

    asyncio.run(scenario())


@pytest.mark.parametrize("damage", ["gone", "rubbish", "empty", "flipped", "pages"])
def test_the_index_can_be_made_anew_from_the_log(tmp_path: Path, damage: str) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            near = [(message(b"n%d" % at), START_MS + 1_000 + at) for at in range(50)]
            far = [(message(b"f%d" % at), START_MS + 30 * DAY_MS + at) for at in range(50)]
            ids = await schedule(broker, TOPIC, 0, near + far)
            await cancel(broker, TOPIC, str(ids[3]))
            await cancel(broker, TOPIC, str(ids[53]))
            await advance(broker, clock, 1_030)
            target = broker.partition(TOPIC, 0)
            await until(lambda: target.log_end_offset >= 20)
        damage_indexes(tmp_path, damage)
        async with running(tmp_path, clock) as broker:
            await advance(broker, clock, 1_000)
            await until_end(broker, 49)
            assert stats(broker).pending == 49
            clock.now_ms += 31 * DAY_MS
            for shard in shards(broker):
                await shard.upkeep()
            await advance(broker, clock, 1_000)
            await until_end(broker, 98)
            expected = [b"n%d" % at for at in range(50) if at != 3]
            expected += [b"f%d" % at for at in range(50) if at != 3]
            assert await values(broker) == expected

    asyncio.run(scenario())


def test_far_messages_wait_on_disk_and_come_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            times = [START_MS + days * DAY_MS for days in (400, 1, 20, 1, 10_000_000)]
            await schedule(
                broker, TOPIC, 0, [(message(b"%d" % at), when) for at, when in enumerate(times)]
            )
            found = stats(broker)
            assert (found.pending, found.in_memory) == (5, 0)
            assert found.next_due_ms == START_MS + DAY_MS
            for shard in shards(broker):
                await shard.update_index()
                assert not shard.machine.far
            assert stats(broker).next_due_ms == START_MS + DAY_MS
            clock.now_ms = START_MS + DAY_MS - 3_600_000
            for shard in shards(broker):
                await shard.upkeep()
            assert stats(broker).in_memory == 2
            await advance(broker, clock, 3_601_000)
            await until_end(broker, 2)
        clock.now_ms = START_MS + 400 * DAY_MS
        async with running(tmp_path, clock) as broker:
            await advance(broker, clock, 100)
            await until_end(broker, 4)
            assert await values(broker) == [b"1", b"3", b"2", b"0"]
            assert stats(broker).pending == 1

    asyncio.run(scenario())


def test_cancelling(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            await BrokerService(broker).topics.create(ANYONE, _other())
            times = [START_MS + 100, START_MS + 200, START_MS + 40 * DAY_MS, START_MS + 50 * DAY_MS]
            ids = await schedule(
                broker, TOPIC, 0, [(message(b"%d" % at), when) for at, when in enumerate(times)]
            )
            near, kept, far, indexed = (str(each) for each in ids)
            with pytest.raises(UnknownDelayedMessage, match="other"):
                await cancel(broker, "other", near)
            await cancel(broker, TOPIC, near)
            await cancel(broker, TOPIC, far)
            for shard in shards(broker):
                await shard.update_index()
            with pytest.raises(UnknownDelayedMessage):
                await cancel(broker, "other", indexed)
            await cancel(broker, TOPIC, indexed)
            for gone in (near, far, indexed):
                with pytest.raises(UnknownDelayedMessage):
                    await cancel(broker, TOPIC, gone)
            assert stats(broker).pending == 1
            assert stats(broker).cancelled == 3
            await advance(broker, clock, 1_000)
            await until_end(broker, 1)
            assert await values(broker) == [b"1"]
            for late in (near, kept):
                with pytest.raises(TooLateToCancel):
                    await cancel(broker, TOPIC, late)
        async with running(tmp_path, clock) as broker:
            assert stats(broker).pending == 0
            assert (await list_pending(broker, TOPIC)).messages == []
            with pytest.raises(UnknownDelayedMessage):
                await cancel(broker, TOPIC, indexed)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "text", ["", "x", "1-2", "1-2-3-4", "-1-0-0", "1-0-0x0", "01-0-0", "1-0-" + "f" * 40, "1-99-0"]
)
def test_ids_that_were_never_given(tmp_path: Path, text: str) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            with pytest.raises(UnknownDelayedMessage):
                await cancel(broker, TOPIC, text)
            [known] = await schedule(broker, TOPIC, 0, [(message(b""), START_MS + 1_000)])
            with pytest.raises(UnknownDelayedMessage):
                await cancel(broker, TOPIC, text)
            forged = str(known._replace(due_ms=known.due_ms + 1))
            with pytest.raises(UnknownDelayedMessage):
                await cancel(broker, TOPIC, forged)
            assert DelayedId.parse(str(known)) == known

    asyncio.run(scenario())


def test_a_cancel_wins_or_loses_against_the_delivery_but_never_both(tmp_path: Path) -> None:
    """Whoever is told that a message is cancelled never sees it; the others are all delivered."""

    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock, topic__fsync__policy="always") as broker:
            await with_topic(broker)
            records = [(message(b"%d" % at), START_MS + 100 + at) for at in range(300)]
            ids = await schedule(broker, TOPIC, 0, records)
            cancelled: set[int] = set()
            refused: set[int] = set()

            async def cancel_one(at: int) -> None:
                try:
                    await cancel(broker, TOPIC, str(ids[at]))
                    cancelled.add(at)
                except TooLateToCancel:
                    refused.add(at)

            async def pass_time() -> None:
                for _ in range(45):
                    clock.now_ms += 10
                    broker.delays.wake()
                    await asyncio.sleep(0.001)

            passing = asyncio.create_task(pass_time())
            for at in range(1, 300, 2):
                await asyncio.gather(cancel_one(at), cancel_one(300 - at))
            await passing
            await advance(broker, clock, 1_000)
            await until(lambda: stats(broker).pending == 0)
            # What is claimed is not pending any more, and not yet in its topic.
            await until(lambda: not any(shard.machine.claimed for shard in shards(broker)))
            delivered = {int(value or b"-1") for value in await values(broker)}
            assert delivered == set(range(300)) - cancelled
            assert cancelled
            assert refused

    asyncio.run(scenario())


def test_listing_pages_through_all_shards_by_due_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker, partitions=4)
            await BrokerService(broker).topics.create(ANYONE, _other())
            await schedule(broker, "other", 0, [(message(b"not this"), START_MS + 500)])
            expected = []
            for at in range(40):
                when = START_MS + (at * 7 % 5) * DAY_MS + 1_000
                value = b"%d" % at
                await schedule(broker, TOPIC, at % 4, [(message(value, key=b"k"), when)])
                expected.append((when, value))
            for limit in (1, 3, 10, 39, 40, 41):
                found = []
                after = None
                while True:
                    page = await list_pending(broker, TOPIC, after=after, limit=limit)
                    found += page.messages
                    assert len(page.messages) <= limit
                    after = page.next_after
                    if after is None:
                        break
                assert sorted((m.id.due_ms, m.record.value) for m in found) == sorted(expected)
                assert [m.id.due_ms for m in found] == sorted(when for when, _ in expected)
            with pytest.raises(InvalidRequest, match="limit"):
                await list_pending(broker, TOPIC, limit=0)
            with pytest.raises(UnknownTopic):
                await list_pending(broker, "nothing")

    asyncio.run(scenario())


def test_a_deleted_topic_takes_its_messages_along(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            await schedule(broker, TOPIC, 0, [(message(b"near"), START_MS + 1_000)])
            [far] = await schedule(broker, TOPIC, 0, [(message(b"far"), START_MS + DAY_MS)])
            await BrokerService(broker).topics.delete(ANYONE, TOPIC)
            await until(lambda: stats(broker).pending == 0)
            await with_topic(broker)
            assert (await list_pending(broker, TOPIC)).messages == []
            with pytest.raises(UnknownDelayedMessage):
                await cancel(broker, TOPIC, str(far))
            await schedule(broker, TOPIC, 0, [(message(b"new"), START_MS + 1_500)])
            await advance(broker, clock, 2_000)
            await until_end(broker, 1)
            assert await values(broker) == [b"new"]
        clock.now_ms += 2 * DAY_MS
        async with running(tmp_path, clock) as broker:
            await advance(broker, clock, 1_000)
            assert await values(broker) == [b"new"]
            assert stats(broker).pending == 0

    asyncio.run(scenario())


def test_the_clock_may_jump(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            await schedule(broker, TOPIC, 0, [(message(b"hour"), START_MS + 3_600_000)])
            clock.now_ms -= 30 * 60_000
            await schedule(broker, TOPIC, 0, [(message(b"soon"), clock.now_ms + 5_000)])
            await until(
                lambda: any(s.machine.pending.wheel.now_ms < START_MS for s in shards(broker))
            )
            await advance(broker, clock, 5_100)
            await until_end(broker, 1)
            assert await values(broker) == [b"soon"]
            await advance(broker, clock, 10 * 3_600_000)
            await until_end(broker, 2)

    asyncio.run(scenario())


def test_what_the_topic_would_refuse_is_refused_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker, cleanup__policy="compact", max__message__bytes="2000")
            when = START_MS + 1_000
            with pytest.raises(InvalidRecord, match="without a key"):
                await schedule(broker, TOPIC, 0, [(message(b"v"), when)])
            with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes is 2000"):
                await schedule(broker, TOPIC, 0, [(message(b"v" * 2_000, key=b"k"), when)])
            bad = message(b"v", key=b"k", headers=(("goqueue-priority", b"9"),))
            with pytest.raises(InvalidRecord, match="goqueue-priority"):
                await schedule(broker, TOPIC, 0, [(bad, when)])
            with pytest.raises(UnknownPartition):
                await schedule(broker, TOPIC, 1, [(message(b"v", key=b"k"), when)])
            with pytest.raises(UnknownTopic):
                await schedule(broker, "nothing", 0, [(message(b"v"), when)])
            with pytest.raises(PolicyViolation):
                await schedule(broker, "__delayed", 0, [(message(b"v"), when)])
            with pytest.raises(InvalidRequest):
                await schedule(broker, TOPIC, 0, [])
            assert stats(broker).pending == 0

    asyncio.run(scenario())


def test_a_topic_whose_rules_changed_still_gets_what_it_took(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            records = [(message(b"v" * 900), START_MS + 1_000) for _ in range(5)]
            await schedule(broker, TOPIC, 0, records)
            await BrokerService(broker).administration.replace_config(
                ANYONE,
                ConfigResource(ConfigResourceKind.TOPIC, TOPIC),
                {"max.message.bytes": "500", "cleanup.policy": "compact"},
            )
            await advance(broker, clock, 2_000)
            await until_end(broker, 5)

    asyncio.run(scenario())


def test_a_large_load_is_cut_into_batches_the_topic_takes(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker, max__message__bytes="10000")
            records = [
                (message(b"%04d" % at + b"x" * (at % 900)), START_MS + 500) for at in range(2_500)
            ]
            await schedule(broker, TOPIC, 0, records)
            await advance(broker, clock, 1_000)
            await until_end(broker, 2_500)
            found = await values(broker)
            assert [int((value or b"")[:4]) for value in found] == list(range(2_500))
            headers = broker.partition(TOPIC, 0).log.headers_from(0)
            assert max(header.size_bytes for header in headers) <= 10_000

    asyncio.run(scenario())


def test_a_target_that_fails_for_a_while_gets_all_in_order_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker, partitions=2)
            broken = broker.partition(TOPIC, 0)
            append = broken.append
            refusals = 0

            def refuse(*args: object, **options: object) -> None:
                nonlocal refusals
                refusals += 1
                raise PartitionOffline("no space left on device")

            monkeypatch.setattr(broken, "append", refuse)
            for at in range(60):
                records = [(message(b"%d" % at), START_MS + 100 * at + 100)]
                await schedule(broker, TOPIC, at % 2, records)
            for _ in range(40):
                clock.now_ms += 100
                broker.delays.wake()
                await asyncio.sleep(0.002)
            await until(lambda: broker.partition(TOPIC, 1).log_end_offset >= 18)
            assert refusals > 0
            assert broken.log_end_offset == 0
            monkeypatch.setattr(broken, "append", append)
            clock.now_ms += 5_000
            broker.delays.wake()
            await until(lambda: broken.log_end_offset == 30)
            assert await values(broker, 0) == [b"%d" % at for at in range(0, 60, 2)]

    asyncio.run(scenario())


def test_a_target_that_lost_what_it_had_goes_on(tmp_path: Path) -> None:
    """As after a power cut, with a topic that never flushes."""

    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker, fsync__policy="never")
            for at in range(6):
                records = [(message(b"%d" % at), START_MS + 1_000 * at + 1_000)]
                await schedule(broker, TOPIC, 0, records)
            for at in range(3):
                await advance(broker, clock, 1_100)
                await until_end(broker, at + 1)
            clock.now_ms += 300
            broker.delays.wake()
            await until(lambda: not any(shard.machine.claimed for shard in shards(broker)))
        lose_the_tail(tmp_path)
        async with running(tmp_path, clock) as broker:
            assert broker.partition(TOPIC, 0).log_end_offset == 1
            await advance(broker, clock, 10_000)
            await until_end(broker, 4)
            assert await values(broker) == [b"0", b"3", b"4", b"5"]

    asyncio.run(scenario())


def test_the_log_is_cleaned_of_what_was_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_shard, "CLEAN_SLACK_BYTES", 100_000)

    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            [shard] = await _shards_with_small_segments(broker)
            await schedule(
                broker,
                TOPIC,
                0,
                [(message(b"survivor %d" % at), START_MS + DAY_MS) for at in range(20)],
            )
            soon = [(message(b"near survivor"), clock.now_ms + 7_200_000)]
            await schedule(broker, TOPIC, 0, soon)
            peak_bytes = 0
            for at in range(20):
                records = [(message(b"x" * 400), clock.now_ms + 100) for _ in range(100)]
                await schedule(broker, TOPIC, 0, records)
                await advance(broker, clock, 500)
                await until_end(broker, 100 * (at + 1))
                clock.now_ms += 300
                broker.delays.wake()
                await asyncio.to_thread(broker.partition(TOPIC, 0).log.flush)
                await until(lambda: not shard.machine.claimed)
                await shard.upkeep()
                peak_bytes = max(peak_bytes, shard.log.partition.log.size_bytes)
            assert shard.log.partition.log.log_start_offset > 1_000
            assert peak_bytes < 400_000
            assert stats(broker).pending == 21
            page = await list_pending(broker, TOPIC)
            assert [m.record.value for m in page.messages] == [
                b"near survivor",
                *(b"survivor %d" % at for at in range(20)),
            ]
            given = shard.machine.next_number
        damage_indexes(tmp_path, "gone")
        clock.now_ms += 2 * DAY_MS
        async with running(tmp_path, clock) as broker:
            # Also of those that nothing in the log tells of any more.
            assert shards(broker)[0].machine.next_number == given
            await advance(broker, clock, 100)
            await until_end(broker, 2_021)
            assert len(set(await values(broker))) == 22

    asyncio.run(scenario())


def test_durability_follows_the_topics_policy(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker, fsync__policy="always")
            for at in range(3):
                await schedule(broker, TOPIC, 0, [(message(b"%d" % at), START_MS + 100)])
                [shard] = shards(broker)
                log = shard.log.partition.log
                assert log.flushed_offset == log.log_end_offset

    asyncio.run(scenario())


def test_a_few_messages_do_without_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexed_delays, "INDEX_WORTH_RECORDS", 1_000)

    async def scenario() -> None:
        clock = Clock()
        dues = [START_MS + 100, START_MS + 200, START_MS + DAY_MS, START_MS + 2 * DAY_MS]
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            records = [(message(b"%d" % at), due) for at, due in enumerate(dues)]
            ids = await schedule(broker, TOPIC, 0, records)
            first = await list_pending(broker, TOPIC, limit=3)
            assert [each.id for each in first.messages] == ids[:3]
            rest = await list_pending(broker, TOPIC, after=first.next_after)
            assert [each.id for each in rest.messages] == ids[3:]
            for at in (1, 3):
                await cancel(broker, TOPIC, str(ids[at]))
                with pytest.raises(UnknownDelayedMessage):
                    await cancel(broker, TOPIC, str(ids[at]))
            assert not indexes(tmp_path)
        assert not indexes(tmp_path)
        async with running(tmp_path, clock) as broker:
            assert [m.id for m in (await list_pending(broker, TOPIC)).messages] == [ids[0], ids[2]]
            await advance(broker, clock, 1_000)
            await until_end(broker, 1)
            clock.now_ms += 3 * DAY_MS
            for shard in shards(broker):
                await shard.upkeep()
            await advance(broker, clock, 1_000)
            await until_end(broker, 2)
            assert await values(broker) == [b"0", b"2"]
            many = [(message(b"m"), clock.now_ms + DAY_MS) for _ in range(1_000)]
            await schedule(broker, TOPIC, 0, many)
        assert indexes(tmp_path)
        async with running(tmp_path, clock) as broker:
            assert stats(broker).pending == 1_000

    asyncio.run(scenario())


def test_a_few_large_messages_are_worth_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start would have to read them all."""
    monkeypatch.setattr(indexed_delays, "INDEX_WORTH_RECORDS", 1_000)

    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            large = [(message(b"x" * 400_000), START_MS + DAY_MS) for _ in range(3)]
            await schedule(broker, TOPIC, 0, large[:2])
            [shard] = shards(broker)
            clock.now_ms += 61_000
            await shard.upkeep()
            assert not indexes(tmp_path)
            await schedule(broker, TOPIC, 0, large[2:])
            assert shard.is_upkeep_due
            await shard.upkeep()
            assert indexes(tmp_path)
            assert len((await list_pending(broker, TOPIC)).messages) == 3

    asyncio.run(scenario())


def test_a_start_writes_nothing_before_something_is_due(tmp_path: Path) -> None:
    """Or a thousand logs would have their files opened, and synced."""

    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker)
            await schedule(broker, TOPIC, 0, [(message(b"later"), START_MS + DAY_MS)])
            [shard] = shards(broker)
            end = shard.log.end_offset
        damage_indexes(tmp_path, "gone")
        async with running(tmp_path, clock) as broker:
            [shard] = shards(broker)
            await advance(broker, clock, 1_000)
            assert shard.log.end_offset == end
            clock.now_ms = START_MS + DAY_MS
            await shard.upkeep()
            await advance(broker, clock, 1_000)
            await until_end(broker, 1)

    asyncio.run(scenario())


def test_many_indexes_have_few_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_indexes, "OPEN_MAX", 3)
    partitions = 12

    def open_tables() -> int:
        found = 0
        for file in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                found += file.readlink().name == FILE_NAME
        return found

    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker, partitions=partitions)
            for partition in range(partitions):
                far = [(message(b"%d" % partition), START_MS + DAY_MS)]
                await schedule(broker, TOPIC, partition, far)
            for _ in range(2):
                for shard in shards(broker):
                    await shard.update_index()
                    clock.now_ms += 1
                assert len((await list_pending(broker, TOPIC)).messages) == partitions
            await until(lambda: open_tables() <= 3)
        assert len(indexes(tmp_path)) == partitions
        async with running(tmp_path, clock) as broker:
            assert stats(broker).pending == partitions
            await until(lambda: open_tables() <= 3)
            clock.now_ms = START_MS + DAY_MS
            for shard in shards(broker):
                await shard.upkeep()
            await advance(broker, clock, 1_000)
            for partition in range(partitions):
                await until_end(broker, 1, partition)

    asyncio.run(scenario())


def test_many_shards_wait_for_one_timer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing falls due, they cost the event loop a turn or two in a second."""
    partitions = 40

    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            await with_topic(broker, partitions=partitions)
            for partition in range(partitions):
                await schedule(broker, TOPIC, partition, [(message(b"x"), START_MS + 900_000)])
            looks = 0

            async def counted(delivery: DelayDelivery) -> bool:
                nonlocal looks
                looks += 1
                return await deliver(delivery)

            deliver = DelayDelivery.deliver
            await asyncio.sleep(0.1)
            monkeypatch.setattr(DelayDelivery, "deliver", counted)
            await asyncio.sleep(2.2)
            assert looks == 0
            clock.now_ms += 1_000_000
            await until(lambda: stats(broker).delivered == partitions)
            assert looks >= partitions

    asyncio.run(scenario())


def test_figures(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        async with running(tmp_path, clock) as broker:
            assert stats(broker).pending == 0
            await with_topic(broker)
            ids = await schedule(
                broker,
                TOPIC,
                0,
                [(message(b"%d" % at), START_MS + 1_000 * (at + 1)) for at in range(4)],
            )
            await cancel(broker, TOPIC, str(ids[3]))
            assert stats(broker).next_due_ms == START_MS + 1_000
            await advance(broker, clock, 1_500)
            await until_end(broker, 1)
            found = stats(broker)
            assert (found.pending, found.delivered, found.cancelled) == (2, 1, 1)
            assert found.lateness_p99_ms == 500
            assert sum(found.lateness_counts) == 1
            [topic] = found.topics
            assert (topic.topic, topic.pending, topic.delivered) == (TOPIC, 2, 1)

    asyncio.run(scenario())


def _other() -> NewTopic:
    return NewTopic(name="other", partitions=1)


async def _shards_with_small_segments(broker: Node) -> list[delay_shard.DelayShard]:
    opened = await open_shards(broker)
    kept_in = companion_of(DELAYED, broker.topic(TOPIC).id)
    await BrokerService(broker).administration.replace_config(
        ANYONE,
        ConfigResource(ConfigResourceKind.TOPIC, kept_in),
        {"segment.bytes": "20000", "retention.ms": "-1", "file.delete.delay.ms": "0"},
    )
    return opened


def indexes(folder: Path) -> list[Path]:
    return list(folder.rglob(FILE_NAME))


def damage_indexes(folder: Path, damage: str) -> None:
    for index in indexes(folder):
        match damage:
            case "gone":
                index.unlink()
            case "rubbish":
                index.write_bytes(b"not a database" * 1_000)
            case "empty":
                index.write_bytes(b"")
            case "flipped":
                content = bytearray(index.read_bytes())
                content[20:100] = bytes(80)
                index.write_bytes(content)
            case "pages":
                content = bytearray(index.read_bytes())
                for page_end in range(2 * 4096, len(content) + 1, 4096):
                    content[page_end - 40 : page_end] = bytes(40)
                index.write_bytes(content)


def lose_the_tail(folder: Path) -> None:
    """Of three batches of equal size the topic keeps one and a bit."""
    [log] = (folder / "logs" / f"{TOPIC}-0").glob("*.log")
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 3 + 5])
    (folder / "clean-shutdown").unlink()
    for path in log.parent.iterdir():
        if path.suffix != ".log" and path.name != "partition.json":
            path.unlink()
