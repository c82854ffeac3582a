"""A partition on several nodes: who leads, who copies, what is committed, and what is cut."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from goqueue.model.errors import (
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    OffsetNotAvailable,
    RequestTimedOut,
)
from goqueue.model.log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Isolation
from goqueue.model.names import NO_LEADER, NodeId
from goqueue.state.replication.following import Append, StartAt, Truncate
from tests.replicas import LAG_MAX_MS, Replicas, append, refusal, stored

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
