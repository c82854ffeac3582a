"""A partition on several nodes: who leads, who copies, what is committed, and what is cut."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from goqueue.broker.partitions import producer_ledger
from goqueue.broker.partitions.compaction import Compactor
from goqueue.broker.partitions.copied_batches import Copied, check_copied
from goqueue.model.batch import assign, iterate_batches
from goqueue.model.batch_editing import covering
from goqueue.model.errors import (
    CorruptBatch,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    OffsetNotAvailable,
    RequestTimedOut,
)
from goqueue.model.log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Isolation
from goqueue.model.names import NO_LEADER, NodeId
from goqueue.model.records import NewRecord, encode_records
from goqueue.state.replication.following import Append, Ignore, StartAt, Truncate
from goqueue.storage.disk import Disk
from goqueue.storage.snapshot_files import PRODUCERS
from tests.replicas import (
    LAG_MAX_MS,
    Replicas,
    append,
    append_keyed,
    append_of_producer,
    append_with_priority,
    end_transaction,
    knowledge,
    lanes,
    refusal,
    stored,
    until_written,
)

Scenario = Callable[..., Coroutine[Any, Any, None]]


def in_loop(scenario: Scenario) -> Callable[..., None]:
    @wraps(scenario)
    def run(*args: object, **fixtures: object) -> None:
        asyncio.run(scenario(*args, **fixtures))

    return run


@asynccontextmanager
async def replicas(folder: Path, nodes: int = 3, **config: Any) -> AsyncIterator[Replicas]:
    made = Replicas(folder, nodes, **config)
    try:
        yield made
    finally:
        await made.close()


@in_loop
async def test_what_all_in_sync_replicas_have_is_committed(tmp_path: Path) -> None:
    async with replicas(tmp_path) as all_:
        led = await all_.elect(0)
        append(led, b"a", b"b")
        waiting = asyncio.create_task(led.wait_committed(2, 60_000))
        await all_.catch_up(1)
        assert led.high_watermark == 0
        assert led.readable_end(Isolation.READ_UNCOMMITTED) == 0
        await all_.catch_up(2, 1)
        await waiting
        assert [all_[node].high_watermark for node in range(3)] == [2, 2, 2]
        assert stored(all_[0]) == stored(all_[1]) == stored(all_[2])


@in_loop
async def test_what_the_leader_sends_twice_is_copied_once(tmp_path: Path) -> None:
    async with replicas(tmp_path) as all_:
        led = await all_.elect(0)
        append(led, b"a", b"b")
        question = all_[1].question()
        assert question is not None
        found = await led.look_as_replica(0, 1_000)
        answer = Copied(found.data, led.high_watermark, led.log_start_offset)
        assert isinstance(await all_[1].answered(question, answer), Append)
        assert isinstance(await all_[1].answered(question, answer), Ignore)
        assert stored(all_[1]) == stored(all_[0])


@in_loop
async def test_a_follower_knows_how_far_it_is_behind(tmp_path: Path) -> None:
    async with replicas(tmp_path) as all_:
        led = await all_.elect(0, 0, 1)
        for number in range(4):
            append(led, b"%d" % number)
        await all_.catch_up(1)
        assert led.high_watermark == 4
        # One batch of four.
        await all_.fetch(2, max_bytes=1)
        assert [all_[node].lag for node in range(3)] == [0, 0, 3]
        await all_.catch_up(2)
        assert all_[2].lag == 0


@in_loop
async def test_a_producer_that_wants_one_copy_does_not_wait_for_others(tmp_path: Path) -> None:
    async with replicas(tmp_path, fsync_policy="always") as all_:
        led = await all_.elect(0)
        end = append(led, b"a")
        await led.wait_acknowledged(1, end, 60_000)
        assert (led.log.flushed_offset, led.high_watermark) == (1, 0)
        error = await refusal(asyncio.create_task(led.wait_acknowledged(-1, end, 1)))
        assert isinstance(error, RequestTimedOut)


@in_loop
async def test_too_few_in_sync_are_told_before_and_after_the_append(tmp_path: Path) -> None:
    async with replicas(tmp_path, min_in_sync=2) as all_:
        led = await all_.elect(0)
        led.check_enough_in_sync()
        end = append(led, b"a")
        await all_.set(in_sync=(all_.member(NodeId(0)),))
        with pytest.raises(NotEnoughReplicas, match="1 of 2"):
            led.check_enough_in_sync()
        error = await refusal(asyncio.create_task(led.wait_acknowledged(-1, end, 1)))
        assert isinstance(error, NotEnoughReplicasAfterAppend)
        assert led.high_watermark == 0


@in_loop
async def test_who_waits_learns_that_another_leads_now(tmp_path: Path) -> None:
    async with replicas(tmp_path) as all_:
        led = await all_.elect(0)
        told: list[str | None] = []
        led.commit_listeners.append(lambda: told.append(led.offline_reason))
        end = append(led, b"a")
        waiting = asyncio.create_task(led.wait_committed(end, 60_000))
        await asyncio.sleep(0)
        await all_.elect(1, 2)
        assert isinstance(await refusal(waiting), NotLeader)
        assert "broker 1" in str(told[-1])
        with pytest.raises(NotLeader):
            append(led, b"b")
        assert all_[0].led is None


@in_loop
async def test_what_was_not_committed_is_cut_when_another_leads(tmp_path: Path) -> None:
    async with replicas(tmp_path, fsync_policy="always") as all_:
        led = await all_.elect(0)
        append(led, b"both")
        await all_.catch_up(1, 2, 1)
        append(led, b"lost 1")
        append(led, b"lost 2")
        led = await all_.elect(1, 2)
        append(led, b"kept")
        assert isinstance(await all_.fetch(0), Truncate)
        assert all_[0].log_end_offset == 1
        assert isinstance(await all_.fetch(0), Append)
        await all_.catch_up(2, 0)
        assert stored(all_[0]) == stored(all_[1]) == stored(all_[2])
        assert all_[0].log.epochs.entries == all_[1].log.epochs.entries == ((1, 0), (2, 1))


@in_loop
async def test_only_a_leader_begins_an_epoch(tmp_path: Path) -> None:
    async with replicas(tmp_path) as all_:
        await all_.elect(0)
        assert [all_[node].log.epochs.latest for node in range(3)] == [1, -1, -1]
        assert all_[1].leader_epoch == 1
        await all_.restart(1)
        await all_.tell(1)
        assert all_[1].log.epochs.latest == -1
        # Without a record of epoch 1, the log of the old leader parts from the new one's at once.
        await all_.elect(1, 2)
        assert isinstance(await all_.fetch(0), Truncate | Append)
        await all_.catch_up(0, 2)
        append(all_.led, b"a")
        await all_.catch_up(0, 2, 0)
        assert all_[0].log.epochs.entries == ((2, 0),)
        assert all_.led.high_watermark == 1


@in_loop
async def test_a_new_leader_does_not_tell_an_end_that_it_does_not_know(tmp_path: Path) -> None:
    async with replicas(tmp_path) as all_:
        append(await all_.elect(0), b"a")
        for _ in range(2):
            await all_.fetch(1)
            await all_.fetch(2)
        assert (all_[0].high_watermark, all_[1].high_watermark) == (1, 0)
        led = await all_.elect(1, 2)
        for isolation in Isolation:
            with pytest.raises(OffsetNotAvailable):
                await led.list_offset(LATEST_TIMESTAMP, isolation=isolation)
        with pytest.raises(OffsetNotAvailable):
            await led.list_offset(all_.now_ms, isolation=Isolation.READ_UNCOMMITTED)
        earliest = await led.list_offset(EARLIEST_TIMESTAMP, isolation=Isolation.READ_UNCOMMITTED)
        assert earliest.offset == 0
        await all_.catch_up(2)
        latest = await led.list_offset(LATEST_TIMESTAMP, isolation=Isolation.READ_UNCOMMITTED)
        assert (latest.offset, latest.leader_epoch) == (1, 2)


@in_loop
async def test_a_follower_that_is_behind_the_start_begins_anew(tmp_path: Path) -> None:
    async with replicas(tmp_path, segment_bytes=200, retention_bytes=200) as all_:
        led = await all_.elect(0)
        append(led, b"x" * 80)
        await all_.catch_up(1, 2, 1)
        for number in range(8):
            append(led, b"%d" % number * 80)
            await all_.catch_up(1)
        await all_.set(in_sync=(all_.member(NodeId(0)), all_.member(NodeId(1))))
        await all_.catch_up(1)
        assert all_[0].apply_retention() > 0
        start = all_[0].log_start_offset
        assert start > 1
        assert all_[1].apply_retention() == 0
        await all_.fetch(1)
        assert all_[1].apply_retention() > 0
        assert all_[1].log_start_offset == start
        assert await all_.fetch(2) == StartAt(start)
        assert (all_[2].log_start_offset, all_[2].log_end_offset) == (start, start)
        await all_.catch_up(2)
        assert stored(all_[2]) == stored(all_[0])
        await all_.restart(2)
        assert stored(all_[2]) == stored(all_[0])


@in_loop
async def test_retention_leaves_what_is_not_committed(tmp_path: Path) -> None:
    async with replicas(tmp_path, segment_bytes=200, retention_bytes=0) as all_:
        led = await all_.elect(0)
        for number in range(4):
            append(led, b"%d" % number * 80)
        assert all_[0].apply_retention() == 0
        await all_.catch_up(1, 2, 1)
        assert led.high_watermark == 4
        assert all_[0].apply_retention() > 0


@in_loop
async def test_the_in_sync_set_shrinks_and_grows_by_proposals(tmp_path: Path) -> None:
    async with replicas(tmp_path, min_in_sync=1) as all_:
        led = await all_.elect(0)
        append(led, b"a")
        await all_.catch_up(1)
        all_.now_ms += LAG_MAX_MS + 1
        await all_.fetch(1)
        proposal = led.proposal_due(all_.now_ms)
        assert proposal is not None
        assert [member.node for member in proposal.state.in_sync] == [0, 1]
        assert led.high_watermark == 0
        assert led.proposal_due(all_.now_ms) == proposal
        assert led.proposal_refused(proposal, None)
        proposal = led.proposal_due(all_.now_ms)
        assert proposal is not None
        all_.state, all_.revision = proposal.state, all_.revision + 1
        assert led.proposal_came_true(proposal, all_.revision)
        assert led.high_watermark == 1
        await all_.catch_up(2)
        proposal = led.proposal_due(all_.now_ms)
        assert proposal is not None
        assert proposal.joining == all_.member(NodeId(2))


@in_loop
async def test_without_a_leader_a_replica_stands_by(tmp_path: Path) -> None:
    async with replicas(tmp_path) as all_:
        await all_.elect(0)
        append(all_.led, b"a")
        await all_.catch_up(1, 2)
        await all_.set(leader=NO_LEADER, leader_epoch=2)
        assert all_[1].question() is None
        assert (all_[1].leader_epoch, all_[1].replica_end) == (2, (1, 1))
        # Under a new registration it learns its role again, but never leads twice under an epoch.
        led = await all_.elect(0)
        await all_[0].stand_by()
        await all_.tell(0)
        assert all_[0].led is None
        with pytest.raises(NotLeader):
            led.check_online()


@in_loop
async def test_what_a_disk_lost_is_copied_again(tmp_path: Path) -> None:
    async with replicas(tmp_path, segment_bytes=200) as all_:
        led = await all_.elect(0)
        for number in range(6):
            append(led, b"%d" % number * 80)
        await all_.catch_up(1, 2, 1)
        file = sorted((tmp_path / "2").glob("*.log"))[2]
        file.write_bytes(file.read_bytes()[:-7] + b"damaged")
        await all_.restart(2)
        assert all_[2].log.damage
        damaged_at = min(damage.offset for damage in all_[2].log.damage)
        assert all_[2].replica_end == (1, damaged_at)
        await all_.tell(2)
        assert (all_[2].log_end_offset, all_[2].high_watermark) == (2, 2)
        await all_.catch_up(2)
        assert not all_[2].log.damage
        assert stored(all_[2]) == stored(all_[0])


@in_loop
async def test_an_election_waits_for_no_disk(tmp_path: Path) -> None:
    class NotingDisk(Disk):
        def __init__(self) -> None:
            super().__init__()
            self.syncs = 0

        def fdatasync(self, fd: int) -> None:
            self.syncs += threading.current_thread() is threading.main_thread()

        def fsync_dir(self, path: Path) -> None:
            self.syncs += threading.current_thread() is threading.main_thread()

    async with replicas(tmp_path, nodes=1, min_in_sync=1) as all_:
        all_.disk = disk = NotingDisk()
        await all_.restart(0)
        for _ in range(3):
            disk.syncs = 0
            append(await all_.elect(0), b"x")
            assert disk.syncs == 0
        assert all_[0].log.epochs.entries == ((1, 0), (2, 1), (3, 2))
        await all_.restart(0)
        assert all_[0].log.epochs.entries == ((1, 0), (2, 1), (3, 2))


@in_loop
async def test_elections_of_a_quiet_partition_sync_nothing(tmp_path: Path) -> None:
    class CountingDisk(Disk):
        syncs = 0

        def fdatasync(self, fd: int) -> None:
            self.syncs += 1

        def fsync_dir(self, path: Path) -> None:
            self.syncs += 1

    async with replicas(tmp_path) as all_:
        append(await all_.elect(0), b"x")
        await all_.catch_up(1, 2)
        all_.disk = disk = CountingDisk()
        await all_.restart(1, is_clean=True)
        disk.syncs = 0
        for _ in range(3):
            await all_.elect(1)
        await all_[1].flushes.ended()
        assert disk.syncs == 0
        # An epoch that nobody wrote under is forgotten by a crash, and nobody misses it.
        epoch = all_[1].leader_epoch
        await all_.restart(1)
        assert all_[1].log.epochs.entries == ((1, 0),)
        append(await all_.elect(1), b"y")
        await all_.catch_up(2)
        assert all_[2].log.epochs.entries == ((1, 0), (epoch + 1, 1))


# --- H4: what was noted of a log by offset -------------------------------------------------


@in_loop
async def test_what_is_remembered_of_producers_is_cut_with_the_log(tmp_path: Path) -> None:
    async with replicas(tmp_path, segment_bytes=400) as all_:
        await all_.elect(0)
        for sequence in range(2):
            append_of_producer(all_.led, producer_id=7, sequence=sequence)
        await all_.catch_up(1, 2, 1)
        # Not committed: a transaction that is aborted, and enough for a segment and snapshots.
        append_of_producer(all_.led, producer_id=8, sequence=0, is_transactional=True)
        for sequence in range(2, 8):
            append_of_producer(all_.led, producer_id=7, sequence=sequence)
        end_transaction(all_.led, producer_id=8)
        cut = all_[0]
        await until_written(cut)
        assert cut.log.snapshots.offsets(PRODUCERS)
        assert len(cut.ledger.aborted) == 1
        append(all_.led, b"not worth a snapshot")
        late = cut.ledger.snapshot()
        assert late is not None
        await all_.elect(1, 2)
        assert await all_.fetch(0) == Truncate(2)
        assert len(cut.ledger.aborted) == 0
        assert [view.last_sequence for view in cut.ledger.producers.describe()] == [1]
        assert max(cut.log.snapshots.offsets(PRODUCERS), default=0) <= 2
        # A writer that was still under way comes too late.
        late()
        for sequence in range(20):
            append_of_producer(all_.led, producer_id=9, sequence=sequence)
        await all_.catch_up(0, 2, 0)
        assert knowledge(cut) == knowledge(all_[1]) == knowledge(all_[2])
        await all_.restart(0)
        assert knowledge(all_[0]) == knowledge(all_[1])
        assert sorted(view.producer_id for view in all_[0].ledger.producers.describe()) == [7, 9]


@in_loop
async def test_what_is_remembered_of_producers_is_written_down_before_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that neither a cut nor a start after a crash goes through a whole segment."""
    monkeypatch.setattr(producer_ledger, "SNAPSHOT_BATCHES", 4)
    async with replicas(tmp_path) as all_:
        await all_.elect(0)
        for sequence in range(7):
            append_of_producer(all_.led, producer_id=7, sequence=sequence)
            await all_.catch_up(1, 2, 1)
            for node in range(2):
                all_[node].flushes.start()
                await all_[node].flushes.ended()
        for node in range(2):
            await until_written(all_[node])
            assert all_[node].log.snapshots.offsets(PRODUCERS) == [4]
        await all_.restart(0)
        assert knowledge(all_[0]) == knowledge(all_[1]) == knowledge(all_[2])


@in_loop
async def test_a_cut_that_concerns_no_producer_leaves_what_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicas(tmp_path) as all_:
        await all_.elect(0)
        append_of_producer(all_.led, producer_id=7, sequence=0)
        await all_.catch_up(1, 2, 1)
        append(all_.led, b"not committed")
        monkeypatch.setattr(all_[0].ledger, "rebuild", lambda: pytest.fail("read for nothing"))
        await all_.elect(1, 2)
        assert await all_.fetch(0) == Truncate(1)
        append_of_producer(all_.led, producer_id=7, sequence=1)
        await all_.catch_up(0, 2, 0)
        assert knowledge(all_[0]) == knowledge(all_[1])


@in_loop
async def test_priorities_are_cut_with_the_log(tmp_path: Path) -> None:
    async with replicas(tmp_path, segment_bytes=400) as all_:
        await all_.elect(0)
        append(all_.led, b"normal")
        await all_.catch_up(1, 2, 1)
        for _ in range(6):
            append_with_priority(all_.led, b"high")
        await until_written(all_[0])
        assert lanes(all_[0])
        await all_.elect(1, 2)
        append(all_.led, b"normal")
        append_with_priority(all_.led, b"high")
        await all_.catch_up(0, 2, 0)
        assert lanes(all_[0]) == lanes(all_[1]) == lanes(all_[2]) == [(2, 3)]
        await all_.restart(0)
        assert lanes(all_[0]) == [(2, 3)]


# --- H8 and H9: logs that were compacted --------------------------------------------------


def test_an_empty_batch_is_cut_where_the_follower_ends() -> None:
    cover = covering(10, 20, 3)
    data, batches = check_copied(cover, 14, last_epoch=2, leader_epoch=5)
    assert [(header.base_offset, header.next_offset) for _, header in batches] == [(14, 20)]
    assert list(iterate_batches(data)) == batches
    with pytest.raises(CorruptBatch, match="where 25 follows"):
        check_copied(cover, 25, last_epoch=2, leader_epoch=5)
    with pytest.raises(CorruptBatch, match="after epoch 4"):
        check_copied(cover, 10, last_epoch=4, leader_epoch=5)
    with pytest.raises(CorruptBatch, match="leader of epoch 2"):
        check_copied(cover, 10, last_epoch=2, leader_epoch=2)
    whole = encode_records([NewRecord(value=b"x")] * 3, now_ms=0)
    assign(whole, 0, 10, 3)
    with pytest.raises(CorruptBatch, match="in the middle"):
        check_copied(bytes(whole), 11, last_epoch=2, leader_epoch=5)


@in_loop
async def test_who_missed_deletions_begins_anew(tmp_path: Path) -> None:
    hour_ms = 3_600_000
    async with replicas(
        tmp_path,
        min_in_sync=1,
        cleanup_policy="compact",
        segment_bytes=200,
        delete_retention_ms=hour_ms,
        min_cleanable_dirty_ratio=0,
    ) as all_:
        led = await all_.elect(0)
        append_keyed(led, b"gone", b"x" * 80)
        append_keyed(led, b"kept", b"x" * 80)
        await all_.catch_up(1, 2, 1)
        await all_.set(in_sync=(all_.member(NodeId(0)),))
        append_keyed(led, b"gone", None)
        for number in range(4):
            append_keyed(led, b"%d" % number, b"x" * 80)
        compactor = Compactor([all_[0]], clock_ms=lambda: all_.now_ms)
        assert await compactor.compact_dirtiest()
        assert isinstance(await all_.fetch(2, 1), Append)
        # After the time for tombstones, the next run takes them away.
        all_.now_ms += 2 * hour_ms
        append_keyed(led, b"last", b"x" * 200)
        append_keyed(led, b"last", b"x" * 200)
        assert await compactor.compact_dirtiest()
        assert b"gone" not in stored(all_[0])
        assert led.log.compaction.tombstones_gone_before > 3
        assert b"gone" in stored(all_[1])
        assert await all_.fetch(1) == StartAt(0)
        await all_.catch_up(1)
        assert stored(all_[1]) == stored(all_[0])
        # It began when everything there was clean, and is not sent back again.
        assert all_[1].log_end_offset == led.log_end_offset
