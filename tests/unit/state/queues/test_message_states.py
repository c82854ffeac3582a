"""The table of a message's states against the machine: every cause from every state."""

from collections.abc import Callable
from itertools import product
from uuid import UUID

import pytest

from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.messages import AckAction, Acknowledgement, QueueKey
from goqueue.model.queues.settings import QueueSettings
from goqueue.state.machine import Outcome, Ticket
from goqueue.state.queues.machine import QueueMachine
from goqueue.state.queues.messages import (
    Acknowledge,
    Acquire,
    Acquired,
    DeadLetterReport,
    MemberLeft,
    OpenQueue,
    ResetQueue,
    Skip,
)
from goqueue.state.queues.states import MOVES, Cause, MessageState, states_between
from tests.unit.state import durable_records

KEY = QueueKey("g", UUID(int=7), 0)
OFFSET = 0
MESSAGE = OffsetRange(OFFSET, OFFSET + 1)
LEASE_MS, WAIT_MS = 1_000, 500


class OneMessage:
    """A queue of one message, run as the broker runs it."""

    def __init__(self, settings: QueueSettings) -> None:
        self.now_ms = 1
        self.lease_id = self.count = 0
        self.machine = self._new_machine()
        opened = OpenQueue(queue=KEY, start=0, settings=settings)
        self.take(self.machine.open_queue(opened, ticket=Ticket(0), now_ms=self.now_ms))

    def _new_machine(self) -> QueueMachine:
        return QueueMachine(new_lease_id=lambda: self.lease_id + 1)

    def take(self, outcome: Outcome) -> object:
        for record in outcome.records:
            self.machine.replay(record)
        return outcome.replies[0].response if outcome.replies else None

    @property
    def state(self) -> MessageState:
        [piece] = states_between(self.machine._queues[KEY], *MESSAGE)
        return piece.value

    def acquire(self) -> None:
        request = Acquire(queue=KEY, member="m", max_messages=1, readable=MESSAGE)
        answer = self.take(self.machine.acquire(request, ticket=Ticket(0), now_ms=self.now_ms))
        assert isinstance(answer, Acquired)
        if answer.leased:
            self.lease_id, self.count = answer.lease_id, answer.leased[0].delivery_count

    def say(self, action: AckAction, delay_ms: int | None = None) -> None:
        item = Acknowledgement(
            offsets=MESSAGE,
            action=action,
            lease_id=self.lease_id,
            delivery_count=self.count,
            delay_ms=delay_ms,
        )
        request = Acknowledge(queue=KEY, member="m", items=(item,))
        self.take(self.machine.acknowledge(request, ticket=Ticket(0), now_ms=self.now_ms))

    def skip(self, request: Skip) -> None:
        self.take(self.machine.skip(request, ticket=Ticket(0), now_ms=self.now_ms))

    def report(self, *, is_written: bool) -> None:
        generation = self.machine._queues[KEY].ledger.generation
        report = DeadLetterReport(
            queue=KEY, generation=generation, offsets=MESSAGE, is_written=is_written
        )
        self.take(self.machine.dead_letter_report(report, now_ms=self.now_ms))

    def let_time_pass(self) -> None:
        self.now_ms += LEASE_MS
        self.take(self.machine.on_deadline(self.now_ms))

    def leave(self) -> None:
        request = MemberLeft(group=KEY.group, member="m")
        self.take(self.machine.member_left(request, ticket=Ticket(0), now_ms=self.now_ms))

    def reset(self, start: int) -> None:
        request = ResetQueue(queue=KEY, start=start)
        self.take(self.machine.reset_queue(request, ticket=Ticket(0), now_ms=self.now_ms))

    def restart(self) -> None:
        records = list(durable_records.of_queues(self.machine))
        self.machine = self._new_machine()
        for record in records:
            self.machine.replay(record)
        self.take(self.machine.loaded(self.now_ms))

    def bring_to(self, state: MessageState) -> None:
        if state is not MessageState.FRESH:
            self.acquire()
        match state:
            case MessageState.WAITING:
                self.say(AckAction.RETRY, WAIT_MS)
            case MessageState.RETURNED:
                self.say(AckAction.RELEASE)
            case MessageState.DYING:
                self.say(AckAction.REJECT)
            case MessageState.SETTLED:
                self.say(AckAction.ACCEPT)


Step = Callable[[OneMessage], None]

# Every way in which a cause can come.
WAYS: dict[Cause, tuple[Step, ...]] = {
    Cause.ACQUIRE: (OneMessage.acquire,),
    Cause.ACCEPT: (lambda one: one.say(AckAction.ACCEPT),),
    Cause.GAP: (lambda one: one.say(AckAction.GAP),),
    Cause.RELEASE: (lambda one: one.say(AckAction.RELEASE),),
    Cause.RETRY: (
        lambda one: one.say(AckAction.RETRY),
        lambda one: one.say(AckAction.RETRY, 0),
        lambda one: one.say(AckAction.RETRY, WAIT_MS),
    ),
    Cause.REJECT: (lambda one: one.say(AckAction.REJECT),),
    Cause.RENEW: (
        lambda one: one.say(AckAction.RENEW),
        lambda one: one.say(AckAction.RENEW, WAIT_MS),
    ),
    Cause.UNSEEN: (lambda one: one.say(AckAction.UNSEEN),),
    Cause.MEMBER_LEFT: (OneMessage.leave,),
    Cause.DEADLINE: (OneMessage.let_time_pass,),
    Cause.EXPIRE: (lambda one: one.skip(Skip(queue=KEY, expired=(MESSAGE,))),),
    Cause.SKIP: (
        lambda one: one.skip(Skip(queue=KEY, skipped=(MESSAGE,))),
        lambda one: one.skip(Skip(queue=KEY, log_start=OFFSET + 1)),
    ),
    Cause.BURIED: (lambda one: one.report(is_written=True),),
    Cause.NOT_BURIED: (lambda one: one.report(is_written=False),),
    Cause.RESET: (lambda one: one.reset(OFFSET), lambda one: one.reset(OFFSET + 1)),
    Cause.RESTART: (OneMessage.restart,),
}

SETTINGS = [
    QueueSettings(
        lease_ms=LEASE_MS,
        max_deliveries=max_deliveries,
        has_dead_letters=has_dead_letters,
        expired_to_dead_letters=expired_to_dead_letters,
    )
    for max_deliveries, has_dead_letters, expired_to_dead_letters in product(
        (1, 3), (True, False), (True, False)
    )
]


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("before", MessageState)
def test_the_machine_moves_messages_as_the_table_says(cause: Cause, before: MessageState) -> None:
    after: set[MessageState] = set()
    for settings, step in product(SETTINGS, WAYS[cause]):
        one = OneMessage(settings)
        one.bring_to(before)
        if one.state is not before:
            # Some settings do not know this state: one delivery only, or no dead letters.
            continue
        step(one)
        after.add(one.state)
    assert after == MOVES[cause].get(before, {before})


def test_only_a_new_beginning_brings_a_settled_message_back() -> None:
    assert set(MOVES) == set(Cause)
    settled = MessageState.SETTLED
    unsettling = [c for c, moves in MOVES.items() if moves.get(settled, {settled}) != {settled}]
    assert unsettling == [Cause.RESET]
