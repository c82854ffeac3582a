"""Replicas of one partition without brokers: real logs and ledgers; a fetch is a call."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import msgspec

from goqueue.broker.partitions.admission import append_now
from goqueue.broker.partitions.copied_batches import Copied
from goqueue.broker.partitions.decoding import BatchDecoder
from goqueue.broker.partitions.flushing import Flusher
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.lane_ledger import LaneLedger
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.partitions.producer_ledger import ProducerLedger
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import GoQueueError, OffsetOutOfRange
from goqueue.model.header_names import PRIORITY
from goqueue.model.names import NO_LEADER, NodeId, topic_partition
from goqueue.model.queues.lanes import Lane
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.replication import Member, PartitionState
from goqueue.model.topic_config import topic_config
from goqueue.state.replication.following import BelowStart, Diverging, EpochEnd, Step
from goqueue.state.replication.leading import FetchVerdict
from goqueue.storage.disk import Disk
from goqueue.storage.log import PartitionLog

NAME = topic_partition("orders", 0)
TOPIC_ID = UUID("7b9b5d0e-6f0e-4c67-9a3f-1f6d1c1a2b3c")
LAG_MAX_MS = 1_000
FETCH_BYTES = 1_000


class UnsyncedDisk(Disk):
    """For tests that never cut the power for real."""

    def fdatasync(self, fd: int) -> None:
        pass

    def fsync_dir(self, path: Path) -> None:
        pass


class Replicas:
    """A partition on several nodes. `state` is what the metadata store has."""

    def __init__(
        self, folder: Path, nodes: int = 3, *, min_in_sync: int = 2, **config: object
    ) -> None:
        self.folder = folder
        # Told of each node that takes a role.
        self.role_changed: Callable[[NodeId, HostedPartition], None] = lambda _node, _hosted: None
        self.now_ms = 1_700_000_000_000
        self.config = topic_config(
            {name.replace("_", "."): str(value) for name, value in config.items()}
        )
        self.threads = ThreadPoolExecutor(2)
        self.flusher = Flusher()
        self.disk: Disk = UnsyncedDisk()
        self.revision = 1
        ids = tuple(NodeId(number) for number in range(nodes))
        self.state = PartitionState(
            leader=NO_LEADER,
            leader_epoch=0,
            replicas=ids,
            in_sync=tuple(self.member(node) for node in ids),
            min_in_sync=min_in_sync,
        )
        self.hosted = {node: self.open(node, clean=False) for node in ids}

    def member(self, node: NodeId) -> Member:
        return Member(node, 100 + node)

    def open(self, node: NodeId, *, clean: bool, high_watermark: int = 0) -> HostedPartition:
        log = PartitionLog.open(
            self.folder / str(node),
            name=NAME,
            topic_id=TOPIC_ID,
            config=self.config,
            disk=self.disk,
            clean=clean,
            epoch_max=self.state.leader_epoch,
            now_ms=self.now_ms,
        )
        return HostedPartition(
            log,
            ProducerLedger.recover(self.disk, log, expiration_ms=86_400_000),
            LaneLedger.recover(log),
            flusher=self.flusher,
            readers=self.threads,
            decoder=BatchDecoder(self.threads),
            clock_ms=lambda: self.now_ms,
            lag_max_ms=LAG_MAX_MS,
            role_changed=lambda hosted: self.role_changed(node, hosted),
            high_watermark=high_watermark,
        )

    async def close(self) -> None:
        for hosted in self.hosted.values():
            await hosted.retire()
            hosted.let_go()
        self.flusher.close()
        self.threads.shutdown()

    def __getitem__(self, node: int) -> HostedPartition:
        return self.hosted[NodeId(node)]

    async def restart(
        self, node: int, *, is_clean: bool = False, high_watermark: int | None = None
    ) -> None:
        """Stop or kill the process, and start it again: it stands by. `high_watermark` is what was
        noted of it, if that was not the last."""
        before = self[node]
        await before.retire()
        if is_clean:
            before.close_files()
        else:
            before.let_go()
        self.hosted[NodeId(node)] = self.open(
            NodeId(node),
            clean=is_clean,
            high_watermark=before.high_watermark if high_watermark is None else high_watermark,
        )

    # --- what the store and the controller do ---------------------------------------------

    async def set(self, **changes: object) -> None:
        """Change the partition in the store; everybody learns of it."""
        self.state = msgspec.structs.replace(self.state, **changes)
        self.revision += 1
        for node in self.hosted:
            await self.tell(node)

    async def tell(self, node: int) -> None:
        member = self.member(NodeId(node))
        await self[node].learn(self.state, self.revision, member, now_ms=self.now_ms)

    async def elect(self, leader: int, *in_sync: int) -> Partition:
        """Without further nodes, the in-sync set stays as it is."""
        members = tuple(self.member(NodeId(node)) for node in (leader, *in_sync))
        await self.set(
            leader=NodeId(leader),
            leader_epoch=self.state.leader_epoch + 1,
            in_sync=members if in_sync else self.state.in_sync,
        )
        return self.led

    @property
    def led(self) -> Partition:
        led = self[self.state.leader].led
        assert led is not None
        return led

    # --- what followers do ----------------------------------------------------------------

    async def fetch(self, follower: int, max_bytes: int = FETCH_BYTES) -> Step | None:
        """One question of a follower to its leader, and what it makes of the answer."""
        hosted = self[follower]
        # What was appended while one flush ran waits for the next.
        for _ in range(20):
            if hosted.question() is None and hosted.following is not None:
                await hosted.flushes.ended()
                await asyncio.sleep(0.001)
        question = hosted.question()
        if question is None:
            return None
        assert hosted.following is not None
        leader = self[hosted.following.leader].led
        if leader is None or leader.leader_epoch != question.leader_epoch:
            return None
        parting = leader.divergence(question.offset, question.last_epoch)
        if parting is not None:
            return await hosted.answered(question, Diverging(EpochEnd(*parting)))
        member = Member(NodeId(follower), question.broker_epoch)
        try:
            verdict = leader.fetched_by(member, question.offset, self.now_ms)
            if verdict is not FetchVerdict.ACCEPTED:
                return None
            found = await leader.look_as_replica(question.offset, max_bytes)
        except OffsetOutOfRange:
            return await hosted.answered(question, BelowStart(leader.log_start_offset))
        answer = Copied(found.data, leader.high_watermark, leader.log_start_offset)
        return await hosted.answered(question, answer)

    async def catch_up(self, *followers: int) -> None:
        """Until the followers have everything, and the leader and they know of it."""
        for _ in range(1_000):
            before = [(self[node].log_end_offset, self[node].high_watermark) for node in followers]
            for node in followers:
                await self.fetch(node)
            after = [(self[node].log_end_offset, self[node].high_watermark) for node in followers]
            if before == after:
                return
        raise AssertionError("the followers never caught up")

    @property
    def followers(self) -> list[int]:
        return [node for node in self.state.replicas if node != self.state.leader]

    async def commit(self) -> None:
        """All that the leader has. The first time, a follower may only learn that its log parted
        from the leader's."""
        for _ in range(3):
            await self.catch_up(*self.followers)

    async def elect_fit(self, node: int) -> None:
        """Only who has all that is committed."""
        high_watermark = self.led.high_watermark
        if node != self.state.leader and self[node].log_end_offset >= high_watermark:
            await self.elect(node)


def append(partition: Partition, *values: bytes) -> int:
    """One batch of these records; returns the end of the log."""
    records = [NewRecord(value=value) for value in values]
    partition.append_own(encode_records(records, now_ms=partition.clock_ms()))
    return partition.log_end_offset


def append_keyed(partition: Partition, key: bytes, value: bytes | None) -> None:
    record = NewRecord(key=key, value=value)
    partition.append_own(encode_records([record], now_ms=partition.clock_ms()))


def append_with_priority(partition: Partition, priority: bytes) -> None:
    record = NewRecord(value=b"x" * 40, headers=((PRIORITY, priority),))
    appended = append_now(partition, encode_records([record], now_ms=partition.clock_ms()))
    assert appended.last_offset == partition.log_end_offset - 1


def append_of_producer(
    partition: Partition, *, producer_id: int, sequence: int, is_transactional: bool = False
) -> None:
    partition.append_own(
        encode_records(
            [NewRecord(value=b"x" * 40)],
            now_ms=partition.clock_ms(),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
    )


def end_transaction(
    partition: Partition, *, producer_id: int, kind: MarkerType = MarkerType.ABORT
) -> None:
    marker = Marker(kind, coordinator_epoch=0)
    partition.append_marker(marker, producer_id=producer_id, producer_epoch=0, bumps_epoch=False)


async def until_written(hosted: HostedPartition) -> None:
    """Until nothing is on its way to the disk but flushes."""
    while hosted._disk_work:
        await asyncio.wait(hosted._disk_work)


def lanes(hosted: HostedPartition) -> list[tuple[int, int]]:
    """Where messages of high priority are."""
    index, found = hosted.lanes.index, []
    offset, end = hosted.log_start_offset, hosted.log_end_offset
    while index is not None and (at := index.next_range(Lane.HIGH, offset, end)) is not None:
        found.append((at.start, at.end))
        offset = at.end
    return found


def knowledge(hosted: HostedPartition) -> dict[str, object]:
    """All that a replica remembers of its log."""
    ledger = hosted.ledger
    producers = ledger.producers
    return {
        "producers": sorted(producers.describe()),
        "batches": producers.kept_batches(),
        "open": producers.first_undecided_offset,
        "aborted": ledger.aborted.overlapping(0, 1 << 62),
        "lanes": lanes(hosted),
        "epochs": hosted.log.epochs.entries,
    }


def stored(hosted: HostedPartition, up_to: int | None = None) -> bytes:
    """All bytes of a replica's log, or those of whole batches below an offset."""
    log = hosted.log
    end = log.log_end_offset if up_to is None else min(up_to, log.log_end_offset)
    offset, parts = log.log_start_offset, []
    while offset < end:
        found = log.read(offset, 1 << 20, up_to=end, at_least_one=True, may_block=True)
        if not found.data:
            break
        parts.append(found.data)
        offset = found.next_offset
    return b"".join(parts)


async def refusal(waiting: "asyncio.Task[None]") -> GoQueueError:
    """What somebody who waits is told in the end."""
    try:
        async with asyncio.timeout(60):
            await waiting
    except GoQueueError as error:
        return error
    raise AssertionError("it was not refused")
