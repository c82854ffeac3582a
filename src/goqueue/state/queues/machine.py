"""The queue engine: one machine per partition of `__queue_state`, with many queues."""

from collections.abc import Callable, Collection
from typing import Final

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import (
    AckAction,
    Acknowledged,
    Acknowledgement,
    QueueDescription,
    QueueKey,
)
from goqueue.model.queues.settings import QueueSettings
from goqueue.state.machine import Outcome, StateRecord, Ticket
from goqueue.state.priority.index import LaneIndex
from goqueue.state.queues.acquiring import acquire, candidates
from goqueue.state.queues.describing import describe_queue
from goqueue.state.queues.holds import Hold, HoldKind, Holds
from goqueue.state.queues.marks import death_of, delivery_count, is_open
from goqueue.state.queues.messages import (
    Acknowledge,
    Acquire,
    Acquired,
    ConfigureQueue,
    DeadLetterReport,
    DeleteAnswer,
    DeleteQueues,
    Done,
    LeasesEnded,
    MemberLeft,
    OpenQueue,
    QueueAnswer,
    ResetQueue,
    Skip,
)
from goqueue.state.queues.queue import Queue
from goqueue.state.queues.range_set import RangeSet
from goqueue.state.queues.receipts import check_items, check_receipt, overlap
from goqueue.state.queues.records import (
    BlockKey,
    BlockValue,
    FloorKey,
    FloorValue,
    HeadValue,
    block_tombstones,
    decode,
    floor_record,
    head_record,
)
from goqueue.state.queues.turn import Turn

# Bounds one call of `on_deadline` (each lease has at most as many messages as one acquire took);
# the rest stays due and is taken by the next call.
DUE_PER_CALL: Final = 100
# A dead letter that could not be written: the topic's partition is moving or the disk is full.
BURY_AGAIN_MS: Final = 1_000
_EVERYTHING: Final = 1 << 63


class QueueMachine:
    """Decides for the queues of one partition of the state topic.

    `new_lease_id` returns numbers that nobody can guess and that never repeat, also not after a
    restart (63 random bits): they are what makes a receipt hard to forge.
    """

    def __init__(self, *, new_lease_id: Callable[[], int]) -> None:
        self._new_lease_id = new_lease_id
        self._queues: dict[QueueKey, Queue] = {}
        self._holds = Holds()
        self._newest_generation = 0

    def _next_generation(self, now_ms: int) -> int:
        """One that no queue has had, also not one that was deleted: the clock sees to that after
        a restart, the newest one until then."""
        return max(now_ms, self._newest_generation + 1)

    # --- queues ---------------------------------------------------------------------------

    def open_queue(
        self, request: OpenQueue, *, ticket: Ticket[QueueAnswer], now_ms: int
    ) -> Outcome:
        outcome = Outcome()
        queue = self._queues.get(request.queue)
        problem = request.settings.problem()
        if queue is not None:
            answer = QueueAnswer(error=QueueError.NONE, floor=queue.ledger.floor)
        elif problem is not None:
            answer = QueueAnswer(error=QueueError.INVALID_CONFIG, problem=problem)
        elif request.start < 0:
            answer = QueueAnswer(error=QueueError.INVALID_REQUEST, problem="start is below 0")
        else:
            head = HeadValue(self._next_generation(now_ms), request.start, request.settings)
            outcome.records.append(head_record(request.queue, head))
            answer = QueueAnswer(error=QueueError.NONE, is_new=True, floor=request.start)
        outcome.reply(ticket, answer)
        return outcome

    def configure_queue(self, request: ConfigureQueue, *, ticket: Ticket[QueueAnswer]) -> Outcome:
        outcome = Outcome()
        queue = self._queues.get(request.queue)
        problem = request.settings.problem()
        if queue is None or queue.head is None:
            answer = QueueAnswer(error=QueueError.UNKNOWN_QUEUE)
        elif problem is not None:
            answer = QueueAnswer(error=QueueError.INVALID_CONFIG, problem=problem)
        else:
            if request.settings != queue.settings:
                head = HeadValue(queue.head.generation, queue.head.start, request.settings)
                outcome.records.append(head_record(request.queue, head))
            answer = QueueAnswer(error=QueueError.NONE, floor=queue.ledger.floor)
        outcome.reply(ticket, answer)
        return outcome

    def attest(self, key: QueueKey, *, ticket: Ticket[None]) -> Outcome:
        """Answered once something is written and committed, so only by who leads the queue."""
        outcome = Outcome()
        queue = self._queues.get(key)
        if queue is not None and queue.head is not None:
            outcome.records.append(head_record(key, queue.head))
        outcome.reply(ticket, None)
        return outcome

    def reset_queue(
        self, request: ResetQueue, *, ticket: Ticket[QueueAnswer], now_ms: int
    ) -> Outcome:
        turn = Turn(self._holds, now_ms)
        queue = self._queues.get(request.queue)
        if queue is None:
            return turn.answer(ticket, QueueAnswer(error=QueueError.UNKNOWN_QUEUE))
        if request.start < 0:
            answer = QueueAnswer(error=QueueError.INVALID_REQUEST, problem="start is below 0")
            return turn.answer(ticket, answer)
        self._holds.drop(queue, 0, _EVERYTHING)
        queue.forget()
        head = HeadValue(self._next_generation(now_ms), request.start, queue.settings)
        turn.outcome.records.append(head_record(queue.key, head))
        turn.outcome.records.append(floor_record(queue.key, None))
        turn.outcome.records += block_tombstones(queue.key, sorted(queue.ledger.blocks))
        turn.wake(queue)
        return turn.answer(ticket, QueueAnswer(error=QueueError.NONE, floor=request.start))

    def delete_queues(self, request: DeleteQueues, *, ticket: Ticket[DeleteAnswer]) -> Outcome:
        outcome = Outcome()
        if request.group is None and request.topic_id is None:
            outcome.reply(ticket, DeleteAnswer(error=QueueError.INVALID_REQUEST))
            return outcome
        chosen = [queue for key, queue in self._queues.items() if request.concerns(key)]
        for queue in chosen:
            self._holds.drop(queue, 0, _EVERYTHING)
            outcome.records += queue.tombstones()
        deleted = tuple(queue.key for queue in chosen)
        outcome.reply(ticket, DeleteAnswer(error=QueueError.NONE, deleted=deleted))
        return outcome

    @property
    def queue_count(self) -> int:
        return len(self._queues)

    @property
    def queue_keys(self) -> Collection[QueueKey]:
        """As they come, for who counts them."""
        return self._queues.keys()

    def list_queues(self, group: str | None = None) -> list[QueueKey]:
        """A look without a ticket; for what must be committed, ask for a description."""
        return sorted(key for key in self._queues if group in (None, key.group))

    def settings(self, key: QueueKey) -> QueueSettings | None:
        queue = self._queues.get(key)
        return None if queue is None else queue.settings

    def floor(self, key: QueueKey) -> int | None:
        """A look without a ticket: everything below is settled."""
        queue = self._queues.get(key)
        return None if queue is None else queue.ledger.floor

    def start(self, key: QueueKey) -> int | None:
        """A look without a ticket: where the queue began, or was made to begin anew."""
        queue = self._queues.get(key)
        return None if queue is None or queue.head is None else queue.head.start

    def is_unsettled(self, key: QueueKey, offset: int) -> bool:
        """A look without a ticket: whether the message will be delivered (again)."""
        queue = self._queues.get(key)
        if queue is None:
            return False
        return any(is_open(piece.value) for piece in queue.ledger.pieces(offset, offset + 1))

    def look(
        self,
        key: QueueKey,
        readable: OffsetRange | None,
        lanes: LaneIndex | None,
        gaps: RangeSet | None = None,
    ) -> QueueDescription | None:
        """A look without a ticket, for figures that need not be committed yet."""
        queue = self._queues.get(key)
        if queue is None or queue.head is None:
            return None
        return describe_queue(queue, readable, lanes, gaps)

    def describe(
        self,
        key: QueueKey,
        *,
        ticket: Ticket[QueueDescription],
        readable: OffsetRange | None = None,
        lanes: LaneIndex | None = None,
        gaps: RangeSet | None = None,
    ) -> Outcome:
        outcome = Outcome()
        unknown = QueueDescription(error=QueueError.UNKNOWN_QUEUE, queue=key, delivery_counts={})
        outcome.reply(ticket, self.look(key, readable, lanes, gaps) or unknown)
        return outcome

    # --- messages -------------------------------------------------------------------------

    def candidates(self, request: Acquire, *, now_ms: int) -> list[OffsetRange]:
        """What `acquire` would take, so that the caller can read it first. Changes nothing."""
        queue = self._queues.get(request.queue)
        return [] if queue is None else candidates(queue, self._holds, request, now_ms)

    def acquire(self, request: Acquire, *, ticket: Ticket[Acquired], now_ms: int) -> Outcome:
        turn = Turn(self._holds, now_ms)
        queue = self._queues.get(request.queue)
        if queue is None:
            return turn.answer(ticket, Acquired(error=QueueError.UNKNOWN_QUEUE))
        return turn.answer(ticket, acquire(queue, self._holds, turn, request, self._new_lease_id))

    def acknowledge(
        self, request: Acknowledge, *, ticket: Ticket[Acknowledged], now_ms: int
    ) -> Outcome:
        turn = Turn(self._holds, now_ms)
        queue = self._queues.get(request.queue)
        if queue is None:
            return turn.answer(ticket, Acknowledged(error=QueueError.UNKNOWN_QUEUE))
        items = request.items
        if not check_items(items, request.member) or (request.is_atomic and overlap(items)):
            return turn.answer(ticket, Acknowledged(error=QueueError.INVALID_REQUEST))
        marks = turn.draft(queue)
        errors: list[QueueError] = []
        if request.is_atomic:
            errors = [check_receipt(queue, marks, i, request.member, now_ms) for i in items]
            failed = [error for error in errors if error is not QueueError.NONE]
            if failed:
                return turn.answer(ticket, Acknowledged(error=failed[0], errors=tuple(errors)))
            for item in items:
                self._apply(queue, turn, item)
        else:
            for item in items:
                error = check_receipt(queue, marks, item, request.member, now_ms)
                if error is QueueError.NONE:
                    self._apply(queue, turn, item)
                errors.append(error)
        answer = Acknowledged(error=QueueError.NONE, errors=tuple(errors))
        return turn.answer(ticket, answer)

    def _apply(self, queue: Queue, turn: Turn, item: Acknowledgement) -> None:
        counters = queue.counters
        start, end = item.offsets
        size = end - start
        match item.action:
            case AckAction.ACCEPT:
                counters.accepted += size
                turn.settle(queue, start, end)
            case AckAction.GAP:
                turn.skip(queue, item.offsets)
            case AckAction.RELEASE:
                counters.released += size
                turn.fail(queue, [item.offsets], 0)
            case AckAction.UNSEEN:
                counters.released += size
                turn.undo(queue, item.offsets)
            case AckAction.RETRY:
                counters.retried += size
                turn.fail(queue, [item.offsets], item.delay_ms)
            case AckAction.REJECT:
                counters.rejected += size
                turn.reject(queue, item.offsets)
            case AckAction.RENEW:
                lease_ms = queue.settings.lease_ms if item.delay_ms is None else item.delay_ms
                self._renew(queue, item.offsets, turn.now_ms + lease_ms)

    def _renew(self, queue: Queue, offsets: OffsetRange, deadline_ms: int) -> None:
        parts: dict[Hold, list[OffsetRange]] = {}
        for piece in queue.holds.occupied(offsets.start, offsets.end):
            if piece.value is not None:
                parts.setdefault(piece.value, []).append(OffsetRange(piece.start, piece.end))
        for hold, ranges in parts.items():
            if hold.size == sum(part.size for part in ranges):
                self._holds.move(hold, deadline_ms)
                continue
            for part in ranges:
                self._holds.drop(queue, part.start, part.end)
            renewed = Hold(
                queue,
                HoldKind.LEASED,
                hold.lane,
                ranges,
                deadline_ms,
                member=hold.member,
                lease_id=hold.lease_id,
            )
            self._holds.put(renewed)

    def skip(self, request: Skip, *, ticket: Ticket[Done], now_ms: int) -> Outcome:
        turn = Turn(self._holds, now_ms)
        queue = self._queues.get(request.queue)
        if queue is None:
            return turn.answer(ticket, Done(error=QueueError.UNKNOWN_QUEUE))
        turn.skip(queue, OffsetRange(0, request.log_start))
        for offsets in request.skipped:
            turn.skip(queue, offsets)
        for offsets in request.expired:
            turn.expire(queue, offsets, also_leased=True)
        for offsets in request.unreadable:
            turn.bury_unreadable(queue, offsets)
        return turn.answer(ticket, Done(error=QueueError.NONE))

    def member_left(self, request: MemberLeft, *, ticket: Ticket[Done], now_ms: int) -> Outcome:
        turn = Turn(self._holds, now_ms)
        for hold in self._holds.of_member(request.group, request.member):
            hold.queue.counters.released += hold.size
            turn.fail(hold.queue, hold.held(), 0)
        return turn.answer(ticket, Done(error=QueueError.NONE))

    def dead_letter_report(self, report: DeadLetterReport, *, now_ms: int) -> Outcome:
        turn = Turn(self._holds, now_ms)
        queue = self._queues.get(report.queue)
        if queue is None or queue.ledger.generation != report.generation:
            return turn.outcome
        for piece in list(turn.draft(queue).pieces(*report.offsets)):
            if death_of(piece.value) is None:
                continue
            if report.is_written:
                queue.counters.dead_lettered += piece.end - piece.start
                turn.settle(queue, piece.start, piece.end)
            else:
                turn.bury_later(queue, OffsetRange(piece.start, piece.end), now_ms + BURY_AGAIN_MS)
        return turn.finish()

    # --- the machine ----------------------------------------------------------------------

    def replay(self, record: StateRecord) -> None:
        key, record_key, value = decode(record)
        queue = self._queues.get(key)
        if value is None:
            if queue is None:
                return
            if isinstance(record_key, BlockKey):
                queue.replay_block(record_key.number, None)
            elif not isinstance(record_key, FloorKey):
                del self._queues[key]
            return
        if queue is None:
            queue = self._queues[key] = Queue(key)
        if isinstance(value, BlockValue):
            assert isinstance(record_key, BlockKey)
            queue.replay_block(record_key.number, value)
        elif isinstance(value, FloorValue):
            queue.replay_floor(value)
        else:
            self._newest_generation = max(self._newest_generation, value.generation)
            queue.replay_head(value)

    def loaded(self, now_ms: int) -> Outcome:
        """All that is not settled is ready again, and what was dying goes on with it."""
        turn = Turn(self._holds, now_ms)
        for queue in self._queues.values():
            if queue.head is None:
                # A deletion that reached the log in part.
                turn.outcome.records += queue.tombstones()
                continue
            redundant = queue.stale_blocks.union(queue.ledger.superseded())
            turn.outcome.records += block_tombstones(queue.key, sorted(redundant))
            for start, end, mark in queue.ledger.dying():
                reason = death_of(mark)
                assert reason is not None
                turn.dead_letter(queue, start, end, delivery_count(mark), reason)
            queue.unsorted = queue.ledger.open()
        return turn.finish()

    def next_deadline_ms(self) -> int | None:
        return self._holds.next_ms()

    def on_deadline(self, now_ms: int) -> Outcome:
        turn = Turn(self._holds, now_ms)
        for hold in self._holds.pop_due(now_ms, DUE_PER_CALL):
            queue, ranges = hold.queue, hold.held()
            if hold.kind is HoldKind.LEASED:
                queue.counters.timed_out += hold.size
                ended = LeasesEnded(queue.key, tuple(ranges), hold.member)
                turn.outcome.effects.append(ended)
                turn.fail(queue, ranges, 0)
            elif hold.kind is HoldKind.WAITING:
                turn.put_back(queue, ranges, hold.lane)
            else:
                turn.bury_again(queue, ranges)
        return turn.finish()
