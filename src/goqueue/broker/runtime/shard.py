"""Runs one state machine on one partition of an internal topic.

Decide, replay, append, wait for the commit, answer. A command's records change the machine at
once, so that the next command decides on what this one did; they reach the log together with those
of other commands of the same turn of the event loop, in one batch; and no answer leaves before
everything it could have seen is committed. Should the append fail, the shard is closed with all its
answers outstanding, and the next leader starts from the log.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, Final, Generic, NamedTuple, TypeVar

from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.commits import until_committed
from goqueue.broker.runtime.replaying import StateReplay
from goqueue.broker.runtime.snapshots import SNAPSHOT_MIN_GAP_MS, StateSnapshots
from goqueue.model.errors import GoQueueError, NotLeader
from goqueue.model.records import NewRecord, encode_records
from goqueue.state.machine import (
    Machine,
    Outcome,
    Reply,
    StateRecord,
    Ticket,
    TimedMethod,
    UntimedMethod,
)

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)
Q = TypeVar("Q")
R = TypeVar("R")

# Far below a segment's size, so that one batch never forces a roll of its own.
BATCH_BYTES: Final = 512 * 1024
# How long an answer waits for the commit where replicas are missing for it.
COMMIT_PATIENCE_MS: Final = 10_000

# Decides with the machine, the ticket to answer, and the time.
Command = Callable[[M, Ticket[R], int], Outcome]


def timed(method: TimedMethod[M, Q, R], request: Q) -> Command[M, R]:
    """A machine's method as a command."""
    return lambda machine, ticket, now_ms: method(machine, request, ticket=ticket, now_ms=now_ms)


def untimed(method: UntimedMethod[M, Q, R], request: Q) -> Command[M, R]:
    """As `timed`, where the time does not matter."""
    return lambda machine, ticket, _: method(machine, request, ticket=ticket)


def _answer_when_committed(_machine: Machine, ticket: Ticket[None], _now_ms: int) -> Outcome:
    outcome = Outcome()
    outcome.reply(ticket, None)
    return outcome


class _Waiting(NamedTuple):
    offset: int
    replies: list[Reply]
    effects: list[object]


class StateShard(Generic[M]):
    def __init__(
        self,
        replay: StateReplay[M],
        partition: Partition,
        *,
        clock_ms: Callable[[], int],
        threads: Executor,
        perform: Callable[[Sequence[object]], None],
        held_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`replay` is at the end of the log; see `begin`. What is due is put off by `held_ms`."""
        self.machine = replay.machine
        self.partition = partition
        self._clock_ms = clock_ms
        self._perform = perform
        self._held_ms = held_ms
        self._loop = asyncio.get_running_loop()
        self._tickets: dict[int, asyncio.Future[Any]] = {}
        self._next_ticket = 0
        self._unwritten: list[StateRecord] = []
        self._unwritten_replies: list[Reply] = []
        self._unwritten_effects: list[object] = []
        self._uncommitted: deque[_Waiting] = deque()
        self._patience: asyncio.TimerHandle | None = None
        # Answers were given up: who asks now is refused before anything is done.
        self._is_stuck = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._error: GoQueueError | None = None
        self.snapshots = StateSnapshots(
            partition.log,
            threads,
            clock_ms=clock_ms,
            committed=lambda: partition.high_watermark,
            min_gap_ms=SNAPSHOT_MIN_GAP_MS,
        )
        self.snapshots.entries = replay.entries
        self._replayed_offset = replay.next_offset
        partition.commit_listeners.append(self._committed)

    async def begin(self) -> None:
        """Go on with what was replayed.

        A new leader may have records that are not committed yet. It counts them in, as they will be
        unless it is replaced, and nothing is shown or done before they are.
        """
        await until_committed(self.partition, self._replayed_offset)
        self.take(self.machine.loaded(self._clock_ms()))

    @property
    def is_closed(self) -> bool:
        """What it decided may not be in the log: only a new shard can go on from there."""
        return self._error is not None

    async def execute(self, command: Command[M, R]) -> R:
        """Run `command(machine, ticket, now_ms)` and return the response to its ticket."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        if self._is_stuck:
            self.partition.check_enough_in_sync()
        ticket: Ticket[R] = Ticket(self._next_ticket)
        self._next_ticket += 1
        future: asyncio.Future[R] = self._loop.create_future()
        self._tickets[ticket] = future
        try:
            self.take(command(self.machine, ticket, self._clock_ms()))
            return await future
        finally:
            self._tickets.pop(ticket, None)

    async def settled(self) -> None:
        """Return once all that the machine shows now is committed, and may be told."""
        if self._unwritten or self.partition.high_watermark < self.partition.log_end_offset:
            await self.execute(_answer_when_committed)

    def take(self, outcome: Outcome) -> None:
        """Carry out what the machine decided."""
        if self._error is not None:
            return
        for record in outcome.records:
            self.machine.replay(record)
        if outcome.records and not self._unwritten:
            self._loop.call_soon(self._write)
        self._unwritten += outcome.records
        if self._unwritten:
            self._unwritten_replies += outcome.replies
            self._unwritten_effects += outcome.effects
        else:
            self._settle(list(outcome.replies), list(outcome.effects))
        self._arm()

    def close(self, error: GoQueueError | None = None) -> None:
        """Stop; every waiting request gets `error`."""
        if self._error is not None:
            return
        self._error = error or NotLeader(f"{self.partition.name} is closed")
        for timer in (self._timer, self._patience):
            if timer is not None:
                timer.cancel()
        self.snapshots.close()
        if self._committed in self.partition.commit_listeners:
            self.partition.commit_listeners.remove(self._committed)
        for future in self._tickets.values():
            if not future.done():
                future.set_exception(self._error)

    # --- writing and answering ------------------------------------------------------------

    def _write(self) -> None:
        if self._error is not None:
            return
        records, self._unwritten = self._unwritten, []
        replies, self._unwritten_replies = self._unwritten_replies, []
        effects, self._unwritten_effects = self._unwritten_effects, []
        now_ms = self._clock_ms()
        try:
            # In one write: a command's records are in the log together or not at all.
            self.partition.append_own(encode_state(records, now_ms=now_ms))
        except GoQueueError as error:
            logger.error("state of %s could not be written: %s", self.partition.name, error)
            self.close(error)
            return
        except Exception as error:
            logger.exception("state of %s could not be written", self.partition.name)
            self.close(NotLeader(f"{self.partition.name}: {error}"))
            return
        self._settle(replies, effects)
        self.snapshots.grown(len(records))

    def _settle(self, replies: list[Reply], effects: list[object]) -> None:
        """Answer once everything written so far is committed."""
        end = self.partition.log_end_offset
        if self.partition.high_watermark >= end:
            self._deliver(replies, effects)
        elif replies or effects:
            self._uncommitted.append(_Waiting(end, replies, effects))
            self._be_patient()

    def _be_patient(self) -> None:
        if self._patience is None and self.partition.leading is not None:
            seconds = COMMIT_PATIENCE_MS / 1000
            self._patience = self._loop.call_later(seconds, self._lose_patience)

    def _lose_patience(self) -> None:
        self._patience = None
        leading = self.partition.leading
        if not self._uncommitted or leading is None:
            return
        if not leading.may_commit:
            # What was decided stays so, and its effects wait for the commit.
            self._is_stuck = True
            error = self.partition.not_acknowledged(COMMIT_PATIENCE_MS)
            for waiting in self._uncommitted:
                for ticket, _ in waiting.replies:
                    future = self._tickets.get(ticket)
                    if future is not None and not future.done():
                        future.set_exception(error)
        self._be_patient()

    def _committed(self) -> None:
        if self.partition.offline_reason is not None:
            self.close(NotLeader(self.partition.offline_reason))
            return
        high_watermark = self.partition.high_watermark
        while self._uncommitted and self._uncommitted[0].offset <= high_watermark:
            waiting = self._uncommitted.popleft()
            self._deliver(waiting.replies, waiting.effects)
        if not self._uncommitted:
            self._is_stuck = False

    def _deliver(self, replies: list[Reply], effects: list[object]) -> None:
        for ticket, response in replies:
            future = self._tickets.get(ticket)
            if future is not None and not future.done():
                future.set_result(response)
        if effects:
            self._perform(effects)

    # --- time -----------------------------------------------------------------------------

    def _arm(self) -> None:
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms == self._timer_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._timer_ms = deadline_ms
        if deadline_ms is not None and self._error is None:
            delay_ms = max(0, deadline_ms - self._clock_ms())
            self._timer = self._loop.call_later(delay_ms / 1000, self._due)

    def _due(self) -> None:
        self._timer = None
        if held_ms := self._held_ms():
            self._timer = self._loop.call_later(held_ms / 1000, self._due)
        elif self._error is None:
            self.take(self.machine.on_deadline(self._clock_ms()))


def encode_state(records: Iterable[StateRecord], *, now_ms: int) -> bytearray:
    """As batches of a state log."""
    batches = [encode_records(chunk, now_ms=now_ms) for chunk in _chunks(records)]
    return bytearray().join(batches)


def _chunks(records: Iterable[StateRecord]) -> Iterator[list[NewRecord]]:
    chunk: list[NewRecord] = []
    size_bytes = 0
    for key, value in records:
        chunk.append(NewRecord(key=key, value=value))
        size_bytes += len(key) + len(value or b"")
        if size_bytes >= BATCH_BYTES:
            yield chunk
            chunk, size_bytes = [], 0
    if chunk:
        yield chunk
