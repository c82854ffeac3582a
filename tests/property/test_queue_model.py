"""A queue against a model that keeps every message by itself, through crashes at any step.

The model knows nothing of ranges, blocks or records. The log is a table of last values, replayed
in any order; some crashes keep only a part of what a command wanted to store.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.lanes import Lane, LaneMode
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
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.marks import FRESH, SETTLED, death_of, delivery_count
from goqueue.state.queues.messages import (
    Acknowledge,
    Acquire,
    Acquired,
    ConfigureQueue,
    DeadLetter,
    DeadLetterReport,
    DeleteQueues,
    MemberLeft,
    OpenQueue,
    ResetQueue,
    Skip,
)
from goqueue.state.queues.pieces import BLOCK_BITS, BLOCK_OFFSETS
from goqueue.state.queues.states import MOVES, Cause, MessageState, states_between
from tests.unit.state import durable_records

TOPIC = UUID(int=7)
KEYS = (QueueKey("g", TOPIC, 0), QueueKey("h", TOPIC, 0))
MEMBERS = ("ada", "bob", None)
# Just before the end of a block, so that small steps cross it.
LOG_START = BLOCK_OFFSETS - 10
LEASE_MS = 1_000
MAX_LOG = 5 * BLOCK_OFFSETS

TIGHT = QueueSettings(
    lease_ms=LEASE_MS,
    max_deliveries=2,
    retry_backoff_ms=300,
    retry_backoff_max_ms=500,
    max_in_flight_per_member=12,
    max_in_flight=20,
    max_unsettled=25,
)
WIDE = QueueSettings(
    lease_ms=LEASE_MS,
    max_deliveries=3,
    retry_backoff_ms=300,
    expired_to_dead_letters=True,
    max_in_flight_per_member=3_000,
    max_in_flight=3_000,
)
SILENT = QueueSettings(
    lease_ms=LEASE_MS, max_deliveries=1, has_dead_letters=False, lane_mode=LaneMode.SINGLE
)


class State(Enum):
    READY = auto()
    LEASED = auto()
    WAITING = auto()
    DYING = auto()
    SETTLED = auto()


@dataclass
class Message:
    lane: Lane
    state: State = State.READY
    count: int = 0
    lease_id: int = 0
    member: str | None = None
    until_ms: int = 0


@dataclass
class Model:
    """One queue, message by message."""

    settings: QueueSettings
    start: int
    messages: dict[int, Message] = field(default_factory=dict)

    def in_state(self, *states: State) -> list[int]:
        return [o for o, m in self.messages.items() if m.state in states]

    @property
    def floor(self) -> int:
        end = max(self.messages, default=self.start - 1) + 1
        unsettled = (o for o, m in self.messages.items() if m.state is not State.SETTLED)
        return max(min(unsettled, default=end), self.start)

    def bury(self, message: Message) -> None:
        dies = self.settings.has_dead_letters
        message.state = State.DYING if dies else State.SETTLED

    def fail(self, message: Message, now_ms: int, delay_ms: int | None) -> None:
        limit = self.settings.max_deliveries
        if limit and message.count >= limit:
            self.bury(message)
            return
        if delay_ms is None:
            delay_ms = min(
                self.settings.retry_backoff_ms * 2 ** (message.count - 1),
                self.settings.retry_backoff_max_ms,
            )
        message.state = State.WAITING if delay_ms else State.READY
        message.until_ms = now_ms + delay_ms


@dataclass(frozen=True)
class Receipt:
    queue: QueueKey
    offsets: OffsetRange
    count: int
    lease_id: int
    member: str | None


class QueueWorld(RuleBasedStateMachine):
    @initialize(
        chosen=st.sampled_from((TIGHT, WIDE, SILENT)), with_lanes=st.booleans(), seed=st.integers()
    )
    def begin(self, chosen: QueueSettings, with_lanes: bool, seed: int) -> None:
        # For shuffles of tables, which Hypothesis cannot shrink in a useful way.
        self.random = random.Random(seed)
        self.now_ms = 1
        self.next_lease_id = 0
        self.table: dict[bytes, bytes] = {}
        self.log_start = self.log_end = LOG_START
        self.lanes = LaneIndex(LOG_START) if with_lanes else None
        self.lane_of: dict[int, Lane] = {}
        self.models: dict[QueueKey, Model] = {}
        self.receipts: list[Receipt] = []
        self.dead_letters: list[DeadLetter] = []
        self.failed_dead: list[DeadLetter] = []
        self.floors: dict[tuple[QueueKey, int], int] = {}
        # What the last step may have done, and the states before it.
        self.causes: set[Cause] = set()
        self.states: dict[QueueKey, dict[int, MessageState]] = {}
        self.machine = self.new_machine()
        for key in KEYS:
            self.open(key, chosen, LOG_START)
        self.append(30, Lane.NORMAL)

    # --- the runtime ----------------------------------------------------------------------

    def new_machine(self) -> QueueMachine:
        return QueueMachine(new_lease_id=self.lease_id)

    def lease_id(self) -> int:
        self.next_lease_id += 1
        return self.next_lease_id

    def carry_out(self, outcome: Outcome) -> object:
        self.store(outcome.records)
        for record in outcome.records:
            self.machine.replay(record)
        for effect in outcome.effects:
            if isinstance(effect, DeadLetter):
                self.dead_letters.append(effect)
        return outcome.replies[0].response if outcome.replies else None

    def store(self, records: Iterable[StateRecord]) -> None:
        for key, value in records:
            self.table.pop(key, None)
            if value is not None:
                self.table[key] = value

    def restart(self) -> None:
        self.causes.add(Cause.RESTART)
        # A process does not start again within the milliseconds its commands took, and each
        # command that needs a generation takes the clock's or the next.
        self.now_ms = max(self.now_ms, self.machine._newest_generation) + 1
        self.machine = self.new_machine()
        entries = list(self.table.items())
        self.random.shuffle(entries)
        for key, value in entries:
            self.machine.replay(StateRecord(key, value))
        self.dead_letters.clear()
        self.failed_dead.clear()
        self.carry_out(self.machine.loaded(self.now_ms))
        for model in self.models.values():
            for message in model.messages.values():
                if message.state in (State.LEASED, State.WAITING):
                    message.state = State.READY

    @rule(from_snapshot=st.booleans())
    def crash(self, from_snapshot: bool) -> None:
        if from_snapshot:
            self.table.clear()
            self.store(durable_records.of_queues(self.machine))
        self.restart()

    @precondition(lambda self: self.models)
    @rule(data=st.data(), kept=st.integers(0, 5), size=st.integers(1, 1_500))
    def crash_while_acquiring(self, data: st.DataObject, kept: int, size: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.models)))
        self.causes |= {Cause.ACQUIRE, Cause.SKIP}
        outcome = self.machine.acquire(
            self.acquisition(key, "ada", size), ticket=Ticket(0), now_ms=1
        )
        self.store(outcome.records[:kept])
        taken = outcome.replies[0].response
        assert isinstance(taken, Acquired)
        self.restart()
        for leased in taken.leased:
            self.adopt(key, leased.offsets, {FRESH, leased.delivery_count << 3})

    @precondition(lambda self: self.receipts)
    @rule(data=st.data(), kept=st.integers(0, 5))
    def crash_while_accepting(self, data: st.DataObject, kept: int) -> None:
        receipt = data.draw(st.sampled_from(self.receipts))
        if receipt.queue not in self.models:
            return
        self.causes.add(Cause.ACCEPT)
        item = Acknowledgement(
            offsets=receipt.offsets,
            action=AckAction.ACCEPT,
            lease_id=receipt.lease_id,
            delivery_count=receipt.count,
        )
        request = Acknowledge(queue=receipt.queue, member=None, items=(item,))
        outcome = self.machine.acknowledge(request, ticket=Ticket(0), now_ms=self.now_ms)
        answer = outcome.replies[0].response
        assert isinstance(answer, Acknowledged)
        self.store(outcome.records[:kept])
        self.restart()
        if answer.errors == (QueueError.NONE,):
            self.adopt(receipt.queue, receipt.offsets, {SETTLED})

    def adopt(self, key: QueueKey, offsets: OffsetRange, allowed: set[int]) -> None:
        """Nobody was told whether it happened: both is right, and from now on it stays so."""
        model = self.models[key]
        for start, end, mark in self.machine._queues[key].ledger.pieces(*offsets):
            for offset in range(start, end):
                message = model.messages[offset]
                assert mark in allowed | {message.count << 3}, (offset, mark)
                message.count = delivery_count(mark)
                if mark == SETTLED:
                    message.state = State.SETTLED

    # --- queues and the log ---------------------------------------------------------------

    def open(self, key: QueueKey, chosen: QueueSettings, start: int) -> None:
        self.now_ms += 1
        self.carry_out(
            self.machine.open_queue(
                OpenQueue(queue=key, start=start, settings=chosen),
                ticket=Ticket(0),
                now_ms=self.now_ms,
            )
        )
        self.models[key] = self.new_model(chosen, start)

    def new_model(self, chosen: QueueSettings, start: int) -> Model:
        messages = {o: Message(lane) for o, lane in self.lane_of.items() if o >= start}
        return Model(chosen, start, messages)

    @precondition(lambda self: self.log_end < MAX_LOG)
    @rule(size=st.integers(1, 40) | st.just(1_100), lane=st.sampled_from(Lane))
    def append(self, size: int, lane: Lane) -> None:
        start, self.log_end = self.log_end, self.log_end + size
        if self.lanes is None:
            lane = Lane.NORMAL
        else:
            self.lanes.append(lane, start, self.log_end)
        for offset in range(start, self.log_end):
            self.lane_of[offset] = lane
            for model in self.models.values():
                if offset >= model.start:
                    model.messages[offset] = Message(lane)

    @rule(by=st.integers(0, 60))
    def retention(self, by: int) -> None:
        self.causes.add(Cause.SKIP)
        self.log_start = min(self.log_start + by, self.log_end - 1)
        if self.lanes is not None:
            self.lanes.trim(self.log_start)
        for key, model in self.models.items():
            request = Skip(queue=key, log_start=self.log_start)
            self.carry_out(self.machine.skip(request, ticket=Ticket(0), now_ms=self.now_ms))
            for offset, message in model.messages.items():
                if offset < self.log_start:
                    message.state = State.SETTLED

    @precondition(lambda self: self.models)
    @rule(data=st.data(), size=st.integers(1, 40) | st.just(1_500))
    def skip(self, data: st.DataObject, size: int) -> None:
        self.causes.add(Cause.SKIP)
        key, offsets = self.some_range(data, size)
        request = Skip(queue=key, skipped=(offsets,))
        self.carry_out(self.machine.skip(request, ticket=Ticket(0), now_ms=self.now_ms))
        for offset in range(*offsets):
            if offset in self.models[key].messages:
                self.models[key].messages[offset].state = State.SETTLED

    @precondition(lambda self: self.models)
    @rule(data=st.data(), size=st.integers(1, 40), acquiring=st.booleans())
    def expire(self, data: st.DataObject, size: int, acquiring: bool) -> None:
        """Those who read before they lease leave alone what others have leased since."""
        key, offsets = self.some_range(data, size)
        self.causes |= {Cause.EXPIRE, Cause.SKIP}
        mortal = {State.READY, State.WAITING, State.LEASED}
        if acquiring:
            # Nothing is taken: there is nothing in the one range that may be.
            nothing = OffsetRange(self.log_end, self.log_end + 1)
            request = structs.replace(
                self.acquisition(key, "ada", 1, (nothing,)), expired=(offsets,)
            )
            self.carry_out(self.machine.acquire(request, ticket=Ticket(0), now_ms=self.now_ms))
            mortal.remove(State.LEASED)
        else:
            self.carry_out(
                self.machine.skip(
                    Skip(queue=key, expired=(offsets,)), ticket=Ticket(0), now_ms=self.now_ms
                )
            )
        model = self.models[key]
        for offset in range(*offsets):
            message = model.messages.get(offset)
            if message is not None and message.state in mortal:
                if model.settings.expired_to_dead_letters:
                    model.bury(message)
                else:
                    message.state = State.SETTLED

    def some_range(self, data: st.DataObject, size: int) -> tuple[QueueKey, OffsetRange]:
        key = data.draw(st.sampled_from(sorted(self.models)))
        start = data.draw(st.integers(self.log_start, self.log_end - 1))
        return key, OffsetRange(start, min(start + size, self.log_end))

    @precondition(lambda self: self.models)
    @rule(data=st.data(), back=st.integers(0, 50))
    def reset(self, data: st.DataObject, back: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.models)))
        self.causes.add(Cause.RESET)
        start = max(self.log_end - back, self.log_start)
        request = ResetQueue(queue=key, start=start)
        self.carry_out(self.machine.reset_queue(request, ticket=Ticket(0), now_ms=self.now_ms))
        self.models[key] = self.new_model(self.models[key].settings, start)
        self.forget_dead(key)

    @rule(group=st.sampled_from(("g", "h")), chosen=st.sampled_from((TIGHT, WIDE, SILENT)))
    def delete_or_open(self, group: str, chosen: QueueSettings) -> None:
        key = QueueKey(group, TOPIC, 0)
        if key in self.models:
            self.carry_out(self.machine.delete_queues(DeleteQueues(group=group), ticket=Ticket(0)))
            del self.models[key]
            self.states.pop(key, None)
            self.forget_dead(key)
        else:
            self.open(key, chosen, self.log_start)

    def forget_dead(self, key: QueueKey) -> None:
        self.dead_letters = [dead for dead in self.dead_letters if dead.queue != key]
        self.failed_dead = [dead for dead in self.failed_dead if dead.queue != key]

    @precondition(lambda self: self.models)
    @rule(data=st.data(), chosen=st.sampled_from((TIGHT, WIDE, SILENT)))
    def configure(self, data: st.DataObject, chosen: QueueSettings) -> None:
        key = data.draw(st.sampled_from(sorted(self.models)))
        request = ConfigureQueue(queue=key, settings=chosen)
        self.carry_out(self.machine.configure_queue(request, ticket=Ticket(0)))
        self.models[key].settings = chosen

    # --- consumers ------------------------------------------------------------------------

    def acquisition(
        self,
        key: QueueKey,
        member: str | None,
        size: int,
        only: tuple[OffsetRange, ...] | None = None,
    ) -> Acquire:
        return Acquire(
            queue=key,
            member=member,
            max_messages=size,
            readable=OffsetRange(self.log_start, self.log_end),
            lanes=self.lanes,
            only=only,
        )

    @precondition(lambda self: self.models)
    @rule(
        data=st.data(),
        member=st.sampled_from(MEMBERS),
        size=st.integers(1, 30) | st.just(1_500),
        picky=st.booleans(),
    )
    def acquire(self, data: st.DataObject, member: str | None, size: int, picky: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.models)))
        self.causes |= {Cause.ACQUIRE, Cause.SKIP}
        model = self.models[key]
        only = None
        ready = {o: m for o, m in model.messages.items() if m.state is State.READY}
        if picky:
            _, wanted = self.some_range(data, 10)
            only = (wanted,)
            ready = {o: m for o, m in ready.items() if wanted.start <= o < wanted.end}
        request = self.acquisition(key, member, size, only)
        hints = self.machine.candidates(request, now_ms=self.now_ms)
        answer = self.carry_out(self.machine.acquire(request, ticket=Ticket(0), now_ms=self.now_ms))
        assert isinstance(answer, Acquired)
        taken = [offset for leased in answer.leased for offset in range(*leased.offsets)]
        assert taken == [offset for offsets in hints for offset in range(*offsets)]
        self.check_choice(model, member, size, ready, taken)
        for leased in answer.leased:
            self.receipts.append(
                Receipt(key, leased.offsets, leased.delivery_count, answer.lease_id, member)
            )
            for offset in range(*leased.offsets):
                message = ready[offset]
                message.count += 1
                assert leased.delivery_count == message.count
                if self.lanes is not None and not self.is_single(model):
                    assert leased.lane is message.lane
                message.state, message.until_ms = State.LEASED, self.now_ms + LEASE_MS
                message.lease_id, message.member = answer.lease_id, member
        del self.receipts[:-40]

    def is_single(self, model: Model) -> bool:
        return model.settings.lane_mode is LaneMode.SINGLE

    def check_choice(
        self,
        model: Model,
        member: str | None,
        size: int,
        ready: dict[int, Message],
        taken: list[int],
    ) -> None:
        assert len(set(taken)) == len(taken)
        assert set(taken) <= set(ready), "not ready"
        limits = model.settings
        leased = model.in_state(State.LEASED)
        room = min(size, limits.max_in_flight - len(leased))
        if member is not None:
            others = sum(
                m.state is State.LEASED and m.member == member for m in model.messages.values()
            )
            room = min(room, limits.max_in_flight_per_member - others)
        unsettled = sum(
            m.count > 0 and m.state in (State.READY, State.LEASED, State.WAITING)
            for m in model.messages.values()
        )
        fresh = [o for o, m in ready.items() if not m.count]
        fresh_room = max(limits.max_unsettled - unsettled, 0)
        returned = len(ready) - len(fresh)
        taken_fresh = [o for o in taken if not ready[o].count]
        assert len(taken_fresh) <= fresh_room
        assert len(taken) <= max(room, 0)
        if fresh_room >= room:
            assert len(taken) == max(min(room, returned + len(fresh)), 0), "held back"
        # Within a lane the oldest go first.
        lanes: dict[object, list[int]] = {}
        for offset in fresh:
            alone = self.lanes is None or self.is_single(model)
            lanes.setdefault(None if alone else ready[offset].lane, []).append(offset)
        chosen = set(taken_fresh)
        for offsets in lanes.values():
            got = [offset for offset in offsets if offset in chosen]
            assert got == offsets[: len(got)]

    @precondition(lambda self: self.receipts)
    @rule(
        data=st.data(),
        action=st.sampled_from(AckAction),
        delay_ms=st.none() | st.integers(1, 2_000),
        lie=st.sampled_from(("", "", "", "member", "lease", "count", "beyond")),
        by_member=st.booleans(),
        is_atomic=st.booleans(),
    )
    def acknowledge(
        self,
        data: st.DataObject,
        action: AckAction,
        delay_ms: int | None,
        lie: str,
        by_member: bool,
        is_atomic: bool,
    ) -> None:
        self.causes.add(Cause[action.name])
        receipt = data.draw(st.sampled_from(self.receipts))
        start = data.draw(st.integers(receipt.offsets.start, receipt.offsets.end - 1))
        end = data.draw(st.integers(start + 1, receipt.offsets.end)) + 3 * (lie == "beyond")
        lease_id = receipt.lease_id + 1_000_000 * (lie == "lease")
        member = "eve" if lie == "member" else receipt.member
        item = Acknowledgement(
            offsets=OffsetRange(start, end),
            action=action,
            lease_id=None if by_member and member is not None else lease_id,
            delivery_count=receipt.count + (lie == "count"),
            delay_ms=delay_ms,
        )
        request = Acknowledge(
            queue=receipt.queue, member=member, items=(item,), is_atomic=is_atomic
        )
        outcome = self.machine.acknowledge(request, ticket=Ticket(0), now_ms=self.now_ms)
        answer = self.carry_out(outcome)
        assert isinstance(answer, Acknowledged)
        model = self.models.get(receipt.queue)
        if model is None:
            assert answer.error is QueueError.UNKNOWN_QUEUE
            return
        messages = [model.messages.get(offset) for offset in range(start, end)]
        valid = all(m is not None and self.may_acknowledge(m, item, member) for m in messages)
        assert (answer.errors == (QueueError.NONE,)) == valid, answer
        if not valid:
            assert not outcome.records
            assert not outcome.effects
            assert answer.errors[0].is_receipt
            return
        for message in messages:
            assert message is not None
            self.apply(model, message, action, delay_ms)

    def may_acknowledge(self, message: Message, item: Acknowledgement, member: str | None) -> bool:
        return (
            message.state is State.LEASED
            and message.until_ms > self.now_ms
            and message.count == item.delivery_count
            and (item.lease_id is None or message.lease_id == item.lease_id)
            and (member is None or message.member == member)
        )

    def apply(
        self, model: Model, message: Message, action: AckAction, delay_ms: int | None
    ) -> None:
        match action:
            case AckAction.ACCEPT | AckAction.GAP:
                message.state = State.SETTLED
            case AckAction.RELEASE:
                model.fail(message, self.now_ms, 0)
            case AckAction.RETRY:
                model.fail(message, self.now_ms, delay_ms)
            case AckAction.REJECT:
                model.bury(message)
            case AckAction.UNSEEN:
                message.state, message.until_ms = State.READY, self.now_ms
                message.count = max(message.count - 1, 1)
            case AckAction.RENEW:
                message.until_ms = self.now_ms + (delay_ms or model.settings.lease_ms)

    @rule(elapsed_ms=st.integers(1, LEASE_MS + 100), late=st.booleans())
    def wait(self, elapsed_ms: int, late: bool) -> None:
        self.now_ms += elapsed_ms
        if late:
            # The timer has not come yet, but who comes too late does so all the same.
            return
        self.causes.add(Cause.DEADLINE)
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= self.now_ms:
            self.carry_out(self.machine.on_deadline(self.now_ms))
        for model in self.models.values():
            for message in model.messages.values():
                if message.until_ms <= self.now_ms:
                    if message.state is State.LEASED:
                        model.fail(message, self.now_ms, 0)
                    elif message.state is State.WAITING:
                        message.state = State.READY
        # What failed is tried again after a second; shorter waits leave it failed.
        again = {(d.queue, o) for d in self.dead_letters for o in range(*d.offsets)}
        self.failed_dead = [
            d for d in self.failed_dead if not {(d.queue, o) for o in range(*d.offsets)} & again
        ]

    @rule(group=st.sampled_from(("g", "h")), member=st.sampled_from(("ada", "bob")))
    def leave(self, group: str, member: str) -> None:
        self.causes.add(Cause.MEMBER_LEFT)
        request = MemberLeft(group=group, member=member)
        self.carry_out(self.machine.member_left(request, ticket=Ticket(0), now_ms=self.now_ms))
        model = self.models.get(QueueKey(group, TOPIC, 0))
        if model is not None:
            for message in model.messages.values():
                if message.state is State.LEASED and message.member == member:
                    model.fail(message, self.now_ms, 0)

    @precondition(lambda self: self.dead_letters)
    @rule(data=st.data(), is_written=st.booleans(), twice=st.booleans())
    def bury(self, data: st.DataObject, is_written: bool, twice: bool) -> None:
        self.causes.add(Cause.BURIED if is_written else Cause.NOT_BURIED)
        dead = self.dead_letters.pop(data.draw(st.integers(0, len(self.dead_letters) - 1)))
        report = DeadLetterReport(
            queue=dead.queue,
            generation=dead.generation,
            offsets=dead.offsets,
            is_written=is_written,
        )
        for _ in range(1 + twice):
            self.carry_out(self.machine.dead_letter_report(report, now_ms=self.now_ms))
        if not is_written:
            self.failed_dead.append(dead)
            return
        for offset in range(*dead.offsets):
            message = self.models[dead.queue].messages[offset]
            if message.state is State.DYING:
                assert dead.delivery_count == message.count
                message.state = State.SETTLED

    # --- what must hold -------------------------------------------------------------------

    @invariant()
    def messages_move_as_the_table_says(self) -> None:
        causes, self.causes = self.causes, set()
        for key in self.models:
            queue = self.machine._queues[key]
            before = self.states.get(key, {})
            now = {
                offset: piece.value
                for piece in states_between(queue, LOG_START, self.log_end)
                for offset in range(piece.start, piece.end)
            }
            if before != now:
                moves = {(before[at], state) for at, state in now.items() if at in before}
                for old, new in moves:
                    assert new in reachable(old, causes), (old, new, causes)
            self.states[key] = now

    @invariant()
    def marks_are_right(self) -> None:
        assert self.machine.list_queues() == sorted(self.models)
        for key, model in self.models.items():
            ledger = self.machine._queues[key].ledger
            assert ledger.floor == model.floor
            for start, end, mark in ledger.pieces(model.start, self.log_end):
                for offset in range(start, end):
                    message = model.messages[offset]
                    if message.state is State.SETTLED:
                        assert mark == SETTLED, offset
                    elif message.state is State.DYING:
                        assert death_of(mark) is not None, offset
                        assert delivery_count(mark) == message.count
                    else:
                        assert mark == message.count << 3, (offset, mark, message)
            known = self.floors.get((key, ledger.generation), 0)
            assert known <= ledger.floor
            self.floors[key, ledger.generation] = ledger.floor

    @invariant()
    def dead_letters_are_on_their_way_once(self) -> None:
        asked = Counter(
            (dead.queue, offset)
            for dead in (*self.dead_letters, *self.failed_dead)
            for offset in range(*dead.offsets)
        )
        dying = {
            (key, offset)
            for key, model in self.models.items()
            for offset in model.in_state(State.DYING)
        }
        assert dying <= set(asked)
        assert all(asked[item] == 1 for item in dying)

    @invariant()
    def state_is_small(self) -> None:
        for key, model in self.models.items():
            ledger = self.machine._queues[key].ledger
            used = {
                offset >> BLOCK_BITS
                for offset, message in model.messages.items()
                if offset >= ledger.floor and (message.count or message.state is not State.READY)
            }
            assert set(ledger.blocks) <= used | {ledger.floor >> BLOCK_BITS}
            assert not any(number in ledger.full for number in ledger.blocks)
            for block in ledger.blocks.values():
                assert block.starts[0] == 0
                assert all(a != b for a, b in zip(block.values, block.values[1:], strict=False))
            stored = {record.key for record in durable_records.of_queues(self.machine)}
            assert set(self.table) <= stored

    @invariant()
    def figures_are_right(self) -> None:
        for key, model in self.models.items():
            outcome = self.machine.describe(
                key,
                ticket=Ticket(0),
                readable=OffsetRange(self.log_start, self.log_end),
                lanes=self.lanes,
            )
            figures = outcome.replies[0].response
            assert isinstance(figures, QueueDescription)
            assert figures.ready == len(model.in_state(State.READY))
            assert figures.in_flight == len(model.in_state(State.LEASED))
            assert figures.waiting == len(model.in_state(State.WAITING))
            assert figures.dying == len(model.in_state(State.DYING))
            floor = model.floor
            settled = sum(o >= floor for o in model.in_state(State.SETTLED))
            assert figures.settled_above_floor == settled
            if self.lanes is not None and not self.is_single(model):
                ready = Counter(m.lane for m in model.messages.values() if m.state is State.READY)
                assert [lane.ready for lane in figures.lanes] == [ready[lane] for lane in Lane]


def reachable(state: MessageState, causes: set[Cause]) -> set[MessageState]:
    """Where the causes may bring a message, in any order."""
    found = {state}
    while True:
        further = {
            after for cause in causes for each in found for after in MOVES[cause].get(each, ())
        }
        if further <= found:
            return found
        found |= further


QueueWorld.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestQueueWorld = QueueWorld.TestCase
