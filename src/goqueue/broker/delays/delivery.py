"""Takes delayed messages to their topics when their time has come, each exactly once.

A round reads what fell due, writes down which messages go to which partition in which order
(`Claimed`), and appends them there as batches of an idempotent producer with just these sequences.
Whatever crash comes between: recovery repeats the claims that are not known to be kept, and the
partition knows by the sequence what it has. A claim is forgotten (`Delivered`) once the partition
keeps the batch as surely as its `fsync.policy` promises.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from goqueue.broker.delays.alarm_clock import SET_BACK_MS, AlarmClock
from goqueue.broker.delays.shard import DelayShard
from goqueue.broker.delays.tracing import delivering
from goqueue.broker.partitions.admission import append_now
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.topic import ShardHost
from goqueue.model.batch import HEADER_BYTES, read_header
from goqueue.model.errors import (
    CorruptBatch,
    DuplicateSequence,
    GoQueueError,
    InvalidRequest,
    OutOfOrderSequence,
    UnknownTopic,
)
from goqueue.model.records import NewRecord, encode_records
from goqueue.state.delays.machine import Claim, Target
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import Delivered, Dropped, Restarted

logger = logging.getLogger(__name__)

# One round must not hold the event loop for longer than some milliseconds.
ROUND_MESSAGES: Final = 1_000
ROUND_BYTES: Final = 4 * 1024 * 1024
# How often to look whether partitions have flushed what they were given.
SETTLE_MS: Final = 200
RETRY_MS: Final = 1_000
# Twice the usual `flush.ms`; then we flush ourselves.
FLUSH_PATIENCE_MS: Final = 2_000
PRODUCER_EPOCH: Final = 0

_NEVER_MS: Final = 1 << 62
# In the place of a message that cannot be read, to know the size of a batch.
_DAMAGED: Final = NewRecord(value=None)


class _Sent(NamedTuple):
    next_sequence: int
    # Where its batch ends, in the log as the leader of this epoch has it.
    end_offset: int
    leader_epoch: int
    flushed_by: float


class DelayDelivery:
    def __init__(self, shard: DelayShard, host: ShardHost, alarm_clock: AlarmClock) -> None:
        self._shard = shard
        self._host = host
        self._alarm_clock = alarm_clock
        self._loop = asyncio.get_running_loop()
        # Numbers that fell due and are not claimed yet, in order.
        self._ready = shard.take_overdue()
        # The same for targets that cannot take them now.
        self._held: dict[int, deque[int]] = {}
        # By the event loop's clock, which is never set.
        self._retry_at: dict[int, float] = {}
        self._settle_at = 0.0
        # Claims that are not in their partition; then those that may not stay in a power cut.
        self._unsent: dict[int, deque[Claim]] = {}
        self._sent: dict[int, deque[_Sent]] = {}
        # Claims end here; nothing is sent before they are safe, and that may need several tries.
        self._claims_end = 0
        self._sleeping: asyncio.Future[None] | None = None
        self._sleeps_until_ms = 0
        for number, target in enumerate(shard.machine.targets):
            if target.claims:
                self._unsent[number] = deque(target.claims)

    async def run(self) -> None:
        while True:
            try:
                more = await self.deliver()
            except GoQueueError as error:
                logger.error("delayed messages wait: %s", error)
                await asyncio.sleep(RETRY_MS / 1000)
                continue
            except Exception:
                # Not foreseen, but all other messages must not wait for a restart.
                logger.exception("delayed messages wait")
                await asyncio.sleep(RETRY_MS / 1000)
                continue
            if more:
                await asyncio.sleep(0)
            else:
                await self._sleep()

    async def deliver(self) -> bool:
        """One round. True if there is more to do at once."""
        now_ms = self._shard.clock_ms()
        pending = self._shard.machine.pending
        if now_ms < pending.wheel.now_ms - SET_BACK_MS:
            pending.wheel.rewind(now_ms)
        if len(self._ready) < ROUND_MESSAGES:
            self._ready += pending.pop_due(now_ms, ROUND_MESSAGES)
        self._release_held()
        if self._unsent:
            await self._send_claims({})
        entries = self._take()
        if entries:
            await self._claim_and_send(entries)
        if self._sent and self._loop.time() >= self._settle_at:
            await self._settle()
            self._settle_at = self._loop.time() + SETTLE_MS / 1000
        return bool(self._ready)

    # --- claiming -------------------------------------------------------------------------

    def _release_held(self) -> None:
        for target in [target for target in self._held if target not in self._unsent]:
            self._ready.extendleft(reversed(self._held.pop(target)))

    def _take(self) -> list[Entry]:
        """The next messages to deliver, in order; they stay pending until they are claimed."""
        machine = self._shard.machine
        taken: list[Entry] = []
        size_bytes = 0
        while self._ready and len(taken) < ROUND_MESSAGES and size_bytes < ROUND_BYTES:
            number = self._ready.popleft()
            entry = machine.pending.get(number)
            if entry is None:
                continue  # cancelled
            if machine.targets[entry.target].is_dropped:
                machine.discard(number)
            elif entry.target in self._held or entry.target in self._unsent:
                self._held.setdefault(entry.target, deque()).append(number)
            else:
                taken.append(entry)
                size_bytes += entry.size_bytes
        return taken

    async def _claim_and_send(self, entries: Sequence[Entry]) -> None:
        shard = self._shard
        machine = shard.machine
        by_target: dict[int, list[Entry]] = {}
        batches: dict[int, list[list[int]]] = {}
        try:
            await shard.ensure_producer()
            messages = await self._read(entries)
            for entry in entries:
                # While reading, one may have been cancelled, or its topic deleted.
                if entry.number in machine.pending and entry.number in messages:
                    by_target.setdefault(entry.target, []).append(entry)
            batches = {target: self._cut(target, found) for target, found in by_target.items()}
            notes = [note for t, cut in batches.items() for note in machine.claim(t, cut)]
            if not notes:
                return
            end = shard.note(*notes)
        except Exception:
            self._ready.extendleft(entry.number for entry in reversed(entries))
            raise
        for target, cut in batches.items():
            claims = machine.targets[target].claims
            self._unsent[target] = deque(claims[at] for at in range(-len(cut), 0))
        self._claims_end = end
        await self._send_claims(messages)

    async def _read(self, entries: Sequence[Entry]) -> dict[int, NewRecord]:
        """The messages that can be read. One that is damaged is set aside until the next start."""
        log = self._shard.log
        try:
            return await log.read(entries)
        except CorruptBatch:
            found: dict[int, NewRecord] = {}
            for entry in entries:
                try:
                    found |= await log.read([entry])
                except CorruptBatch as error:
                    logger.error("delayed message %d cannot be delivered: %s", entry.number, error)
            return found

    def _cut(self, target: int, entries: Sequence[Entry]) -> list[list[int]]:
        """Numbers in batches that the target takes."""
        max_bytes = ROUND_BYTES
        partition = self._find(self._shard.machine.targets[target])
        if partition is not None:
            max_bytes = partition.config.max_message_bytes - HEADER_BYTES
        batches: list[list[int]] = []
        left_bytes = -1
        for entry in entries:
            left_bytes -= entry.size_bytes
            if left_bytes < 0:
                batches.append([])
                left_bytes = max_bytes - entry.size_bytes
            batches[-1].append(entry.number)
        return batches

    def _find(self, target: Target) -> Partition | None:
        try:
            return self._partition(target)
        except GoQueueError:
            return None

    def _partition(self, target: Target) -> Partition:
        topic = self._host.image.topics_by_id.get(target.key.topic_id)
        if topic is None:
            raise UnknownTopic(f"there is no topic with id {target.key.topic_id}")
        return self._host.partition(topic.name, target.key.partition)

    # --- sending --------------------------------------------------------------------------

    async def _send_claims(self, messages: Mapping[int, NewRecord]) -> None:
        """Another leader that does not know the claims would use their sequences again."""
        await self._shard.log.committed(self._claims_end)
        for target in list(self._unsent):
            if self._retry_at.get(target, 0) <= self._loop.time():
                await self._send(target, messages)

    async def _send(self, number: int, messages: Mapping[int, NewRecord]) -> None:
        """Append the target's claims in order; what fails is tried again later."""
        target = self._shard.machine.targets[number]
        claims = self._unsent[number]
        self._retry_at.pop(number, None)
        while claims and not target.is_dropped:
            try:
                end_offset, leader_epoch = await self._send_claim(target, claims[0], messages)
            except UnknownTopic:
                self._shard.note(Dropped(target.key.topic_id))
                break
            except OutOfOrderSequence as error:
                await self._restart(number, error)
                return
            except GoQueueError as error:
                logger.warning("delayed messages of %s wait: %s", target.key, error)
                self._retry_at[number] = self._loop.time() + RETRY_MS / 1000
                return
            sent = claims.popleft()
            flushed_by = self._loop.time() + FLUSH_PATIENCE_MS / 1000
            found = _Sent(sent.next_sequence, end_offset, leader_epoch, flushed_by)
            self._sent.setdefault(number, deque()).append(found)
        del self._unsent[number]

    async def _send_claim(
        self, target: Target, claim: Claim, messages: Mapping[int, NewRecord]
    ) -> tuple[int, int]:
        """Append one batch, unless it is there already; returns the offset after it, and the epoch
        of the leader that has it there."""
        machine = self._shard.machine
        claimed = [machine.claimed[n] for n in claim.numbers if n in machine.claimed]
        if any(number not in messages for number in claim.numbers):
            messages = await self._read(claimed)
        partition = self._partition(target)
        now_ms = self._shard.clock_ms()
        batch = encode_records(
            (messages.get(number, _DAMAGED) for number in claim.numbers),
            # Messages get the time of delivery: retention and time to live begin here.
            now_ms=now_ms,
            producer_id=claim.producer_id,
            producer_epoch=PRODUCER_EPOCH,
            base_sequence=claim.base_sequence,
        )
        if any(number not in messages for number in claim.numbers):
            end_offset = _append_readable(partition, batch, claim, messages, now_ms)
        else:
            with delivering(partition.trace, claimed, messages):
                end_offset = _append(partition, batch)
        due_times_ms = [entry.due_ms for entry in claimed]
        self._shard.figures.delivery(target.key.topic_id, due_times_ms, now_ms)
        return end_offset, partition.leader_epoch

    async def _restart(self, number: int, error: OutOfOrderSequence) -> None:
        """The target lost batches that it had acknowledged, so sequences no longer follow on."""
        shard = self._shard
        target = shard.machine.targets[number]
        logger.warning("%s has lost messages; delivery goes on: %s", target.key, error)
        for sent in self._sent.pop(number, ()):
            shard.note(Delivered(*target.key, sent.next_sequence))
        await shard.take_producer_id()
        self._claims_end = shard.note(Restarted(*target.key, shard.producer_id))
        self._send_again(number)

    def _send_again(self, number: int) -> None:
        """In the next round, all claims that are not known to be kept."""
        self._unsent[number] = deque(self._shard.machine.targets[number].claims)
        self._retry_at[number] = self._loop.time()

    # --- settling -------------------------------------------------------------------------

    async def _settle(self, *, at_once: bool = False) -> None:
        """Forget the claims whose batches stay."""
        notes = []
        for number in list(self._sent):
            target = self._shard.machine.targets[number]
            sent = self._sent[number]
            partition = self._find(target)
            if target.is_dropped:
                self._sent.pop(number)
                continue
            if partition is None or sent[0].leader_epoch != partition.leader_epoch:
                # Another leader may have cut it off, and given its place to others.
                self._sent.pop(number)
                self._send_again(number)
                continue
            overdue = at_once or sent[0].flushed_by < self._loop.time()
            if overdue and sent[0].end_offset > _safe_offset(partition):
                # A batch that was found there after a crash: nobody else flushes it.
                await self._shard.flush(partition)
            safe_offset = _safe_offset(partition)
            next_sequence = None
            while sent and sent[0].end_offset <= safe_offset:
                next_sequence = sent.popleft().next_sequence
            if next_sequence is not None and not target.is_dropped:
                notes.append(Delivered(*target.key, next_sequence))
            if not sent:
                del self._sent[number]
        if notes:
            self._shard.note(*notes)

    async def settle_all(self) -> None:
        """Before the end: leave nothing that the next start would have to repeat."""
        await self._settle(at_once=True)

    # --- time -----------------------------------------------------------------------------

    def wake(self, due_ms: int = 0) -> None:
        """Something is due at that time."""
        sleeping = self._sleeping
        if sleeping is not None and due_ms < self._sleeps_until_ms and not sleeping.done():
            sleeping.set_result(None)

    async def _sleep(self) -> None:
        """Until something is to be done."""
        seconds = [at - self._loop.time() for at in self._retry_at.values()]
        if self._sent:
            seconds.append(self._settle_at - self._loop.time())
        stop_ms = self._shard.machine.pending.wheel.next_stop_ms()
        self._sleeps_until_ms = _NEVER_MS if stop_ms is None else stop_ms
        self._sleeping = self._loop.create_future()
        if stop_ms is not None:
            self._alarm_clock.set(self.wake, stop_ms)
        timer = None
        if seconds:
            timer = self._loop.call_later(max(min(seconds), 0.001), self.wake)
        try:
            await self._sleeping
        finally:
            self._sleeping = None
            self._alarm_clock.unset(self.wake)
            if timer is not None:
                timer.cancel()


def _append(partition: Partition, batch: bytearray) -> int:
    try:
        return append_now(partition, batch).last_offset + 1
    except DuplicateSequence:
        return partition.log_end_offset
    except InvalidRequest as error:
        # The topic's rules were changed after it had taken the message.
        logger.warning("%s takes a delayed batch against its rules: %s", partition.name, error)
        duplicate = partition.ledger.producers.check(read_header(batch))
        if duplicate is not None:
            return duplicate.last_offset + 1
        return partition.append_own(batch).last_offset + 1


def _append_readable(
    partition: Partition,
    batch: bytearray,
    claim: Claim,
    messages: Mapping[int, NewRecord],
    now_ms: int,
) -> int:
    """Deliver what can be read of a claim that was damaged after it was written down."""
    try:
        duplicate = partition.ledger.producers.check(read_header(batch))
    except DuplicateSequence:
        return partition.log_end_offset
    if duplicate is not None:
        return duplicate.last_offset + 1
    readable = [messages[number] for number in claim.numbers if number in messages]
    if readable:
        partition.append_own(encode_records(readable, now_ms=now_ms))
    return partition.log_end_offset


def _safe_offset(partition: Partition) -> int:
    """Below this the partition keeps what it was given, as far as its policy goes."""
    if partition.config.fsync_policy == "interval":
        return min(partition.log.flushed_offset, partition.high_watermark)
    return partition.high_watermark
