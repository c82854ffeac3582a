"""One command at work: collects the changes of the queues it touches, then says what to store.

A command may touch a queue several times before anything is replayed, so all of it goes through
one draft per queue.
"""

from typing import TypeVar

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.lanes import Lane
from goqueue.model.queues.messages import QueueKey
from goqueue.state.machine import Outcome, Ticket
from goqueue.state.queues.draft import Draft
from goqueue.state.queues.holds import Hold, HoldKind, Holds
from goqueue.state.queues.marks import (
    FRESH,
    DeadLetterReason,
    death_of,
    delivered,
    delivery_count,
    dying,
    is_open,
)
from goqueue.state.queues.messages import DeadLetter, QueueReady
from goqueue.state.queues.queue import Queue

R = TypeVar("R")


class Turn:
    def __init__(self, holds: Holds, now_ms: int) -> None:
        self.outcome = Outcome()
        self.now_ms = now_ms
        self._holds = holds
        self._drafts: dict[QueueKey, Draft] = {}
        self._woken: set[QueueKey] = set()
        self._dead: list[DeadLetter] = []

    def draft(self, queue: Queue) -> Draft:
        draft = self._drafts.get(queue.key)
        if draft is None:
            draft = self._drafts[queue.key] = Draft(queue.ledger)
        return draft

    def finish(self) -> Outcome:
        for key, draft in self._drafts.items():
            self.outcome.records += draft.records(key)
        self.outcome.effects += self._dead
        self.outcome.effects += [QueueReady(key) for key in sorted(self._woken)]
        return self.outcome

    def answer(self, ticket: Ticket[R], response: R) -> Outcome:
        self.outcome.reply(ticket, response)
        return self.finish()

    def wake(self, queue: Queue) -> None:
        self._woken.add(queue.key)

    # --- what becomes of messages ---------------------------------------------------------

    def settle(self, queue: Queue, start: int, end: int) -> None:
        """They are done with, whatever they were."""
        self.end_holds(queue, start, end)
        queue.withdraw(start, end)
        self.draft(queue).settle(start, end)

    def end_holds(self, queue: Queue, start: int, end: int) -> None:
        self._holds.drop(queue, start, end)
        if queue.is_limited:
            queue.is_limited = False
            self.wake(queue)

    def fail(self, queue: Queue, ranges: list[OffsetRange], delay_ms: int | None) -> None:
        """Leased messages were not dealt with: again after `delay_ms` (None: the back-off that
        their deliveries ask for), or to the dead letters after the last delivery."""
        settings = queue.settings
        draft = self.draft(queue)
        waiting: dict[tuple[Lane, int], list[OffsetRange]] = {}
        for offsets in ranges:
            for held in list(queue.holds.occupied(offsets.start, offsets.end)):
                assert held.value is not None
                lane = held.value.lane
                self.end_holds(queue, held.start, held.end)
                for start, end, mark in list(draft.pieces(held.start, held.end)):
                    deliveries = delivery_count(mark)
                    if settings.is_last(deliveries):
                        reason = DeadLetterReason.MAX_DELIVERIES
                        self.bury(queue, start, end, deliveries, reason)
                        continue
                    wait_ms = settings.backoff_ms(deliveries) if delay_ms is None else delay_ms
                    if wait_ms > 0:
                        waiting.setdefault((lane, wait_ms), []).append(OffsetRange(start, end))
                    else:
                        queue.returned[lane].add(start, end)
                        self.wake(queue)
        for (lane, wait_ms), waits in waiting.items():
            self._holds.put(Hold(queue, HoldKind.WAITING, lane, waits, self.now_ms + wait_ms))

    def undo(self, queue: Queue, offsets: OffsetRange) -> None:
        """Leased messages did not reach anybody."""
        draft = self.draft(queue)
        for held in list(queue.holds.occupied(offsets.start, offsets.end)):
            assert held.value is not None
            lane = held.value.lane
            self.end_holds(queue, held.start, held.end)
            for start, end, mark in list(draft.pieces(held.start, held.end)):
                draft.assign(start, end, delivered(max(delivery_count(mark) - 1, 1)))
                queue.returned[lane].add(start, end)
        self.wake(queue)

    def put_back(self, queue: Queue, ranges: list[OffsetRange], lane: Lane) -> None:
        """Their wait is over."""
        for offsets in ranges:
            self.end_holds(queue, offsets.start, offsets.end)
            queue.returned[lane].add(offsets.start, offsets.end)
        self.wake(queue)

    def bury(
        self, queue: Queue, start: int, end: int, deliveries: int, reason: DeadLetterReason
    ) -> None:
        """To the dead letters: durable first, then the effect, settled when that is reported."""
        if not queue.settings.has_dead_letters:
            queue.counters.dropped += end - start
            self.settle(queue, start, end)
            return
        self.end_holds(queue, start, end)
        queue.withdraw(start, end)
        self.draft(queue).assign(start, end, dying(deliveries, reason))
        self.dead_letter(queue, start, end, deliveries, reason)

    def dead_letter(
        self, queue: Queue, start: int, end: int, deliveries: int, reason: DeadLetterReason
    ) -> None:
        """Ask for the copies; what follows on the last request joins it."""
        if self._dead:
            last = self._dead[-1]
            same = (last.queue, last.delivery_count, last.reason) == (
                queue.key,
                deliveries,
                reason,
            )
            if same and last.offsets.end == start:
                start = self._dead.pop().offsets.start
        self._dead.append(
            DeadLetter(
                queue=queue.key,
                generation=queue.ledger.generation,
                offsets=OffsetRange(start, end),
                delivery_count=deliveries,
                reason=reason,
            )
        )

    def reject(self, queue: Queue, offsets: OffsetRange) -> None:
        for start, end, mark in list(self.draft(queue).pieces(offsets.start, offsets.end)):
            deliveries = delivery_count(mark)
            self.bury(queue, start, end, deliveries, DeadLetterReason.REJECTED)

    def bury_later(self, queue: Queue, offsets: OffsetRange, at_ms: int) -> None:
        self.end_holds(queue, offsets.start, offsets.end)
        self._holds.put(Hold(queue, HoldKind.BURYING, Lane.NORMAL, [offsets], at_ms))

    def bury_again(self, queue: Queue, ranges: list[OffsetRange]) -> None:
        for offsets in ranges:
            self.end_holds(queue, offsets.start, offsets.end)
            for start, end, mark in self.draft(queue).pieces(offsets.start, offsets.end):
                reason = death_of(mark)
                if reason is not None:
                    self.dead_letter(queue, start, end, delivery_count(mark), reason)

    def expire(self, queue: Queue, offsets: OffsetRange, *, also_leased: bool) -> None:
        """Past their time to live. Unless `also_leased`, who has one already may finish it."""
        for piece in list(self.draft(queue).pieces(offsets.start, offsets.end)):
            if piece.value != FRESH and not is_open(piece.value):
                continue
            for held in list(queue.holds.pieces(piece.start, piece.end)):
                is_leased = held.value is not None and held.value.kind is HoldKind.LEASED
                if is_leased and not also_leased:
                    continue
                queue.counters.expired += held.end - held.start
                if queue.settings.expired_to_dead_letters:
                    deliveries = delivery_count(piece.value)
                    reason = DeadLetterReason.EXPIRED
                    self.bury(queue, held.start, held.end, deliveries, reason)
                else:
                    self.settle(queue, held.start, held.end)

    def bury_unreadable(self, queue: Queue, offsets: OffsetRange) -> None:
        for start, end, mark in list(self.draft(queue).pieces(offsets.start, offsets.end)):
            if mark == FRESH or is_open(mark):
                reason = DeadLetterReason.UNREADABLE
                self.bury(queue, start, end, delivery_count(mark), reason)

    def skip(self, queue: Queue, offsets: OffsetRange) -> None:
        """No consumer may see these."""
        start = max(offsets.start, queue.ledger.floor)
        if start < offsets.end:
            queue.counters.skipped += offsets.end - start
            self.settle(queue, start, offsets.end)
