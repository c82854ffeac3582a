"""The states of a message in one group's queue, and what moves it from one to another.

A message's state is never stored as such: it follows from its mark in the ledger, which is durable,
and from who holds it, which a crash forgets.

| state    | mark                  | hold    |                                                  |
|----------|-----------------------|---------|--------------------------------------------------|
| FRESH    | none                  | none    | ready; nobody has got it yet                     |
| LEASED   | delivered n times     | LEASED  | with a consumer until the deadline               |
| WAITING  | delivered n times     | WAITING | with nobody until the deadline, after a failure  |
| RETURNED | delivered n times     | none    | ready again                                      |
| DYING    | dying, with a reason  | any     | on its way to the dead letters                   |
| SETTLED  | settled, or the floor | none    | done with, for good                              |

`MOVES` is the whole life of a message. It is not consulted: a test drives the machine through every
cause from every state and compares, and the model of the queue checks each of its random steps.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Final

from goqueue.state.queues.holds import HoldKind
from goqueue.state.queues.marks import FRESH, death_of, is_open
from goqueue.state.queues.pieces import Piece
from goqueue.state.queues.queue import Queue


class MessageState(Enum):
    FRESH = auto()
    LEASED = auto()
    WAITING = auto()
    RETURNED = auto()
    DYING = auto()
    SETTLED = auto()


class Cause(Enum):
    """What happens to a message."""

    # A consumer takes it.
    ACQUIRE = auto()
    # Its consumer says what became of it (`AckAction`).
    ACCEPT = auto()
    GAP = auto()
    RELEASE = auto()
    RETRY = auto()
    REJECT = auto()
    RENEW = auto()
    UNSEEN = auto()
    # Its consumer left, or its lease or its wait is over.
    MEMBER_LEFT = auto()
    DEADLINE = auto()
    # Its time to live is over.
    EXPIRE = auto()
    # It is no message for consumers, or retention has removed it.
    SKIP = auto()
    # Its copy in the dead-letter topic is written, or could not be.
    BURIED = auto()
    NOT_BURIED = auto()
    # The queue begins anew at some offset.
    RESET = auto()
    # The broker starts again, after a crash or not.
    RESTART = auto()


_S = MessageState
_ALL: Final = frozenset(MessageState)
# To the dead letters; settled at once where the queue has none.
_DEAD: Final = frozenset({_S.DYING, _S.SETTLED})
# The next delivery, or after the last one the dead letters.
_FAILED: Final = frozenset({_S.RETURNED}) | _DEAD
_SETTLED: Final = frozenset({_S.SETTLED})
_RETURNED: Final = frozenset({_S.RETURNED})
_LEASED: Final = frozenset({_S.LEASED})

# A state that is missing under a cause stays as it is.
MOVES: Final[Mapping[Cause, Mapping[MessageState, frozenset[MessageState]]]] = {
    Cause.ACQUIRE: {_S.FRESH: _LEASED, _S.RETURNED: _LEASED},
    Cause.ACCEPT: {_S.LEASED: _SETTLED},
    Cause.GAP: {_S.LEASED: _SETTLED},
    Cause.RELEASE: {_S.LEASED: _FAILED},
    Cause.RETRY: {_S.LEASED: _FAILED | {_S.WAITING}},
    Cause.REJECT: {_S.LEASED: _DEAD},
    Cause.RENEW: {_S.LEASED: _LEASED},
    Cause.UNSEEN: {_S.LEASED: _RETURNED},
    Cause.MEMBER_LEFT: {_S.LEASED: _FAILED},
    Cause.DEADLINE: {_S.LEASED: _FAILED, _S.WAITING: _RETURNED},
    Cause.EXPIRE: {_S.FRESH: _DEAD, _S.LEASED: _DEAD, _S.WAITING: _DEAD, _S.RETURNED: _DEAD},
    Cause.SKIP: dict.fromkeys(_ALL, _SETTLED),
    Cause.BURIED: {_S.DYING: _SETTLED},
    # Tried again when its deadline comes, until it is written.
    Cause.NOT_BURIED: {_S.DYING: frozenset({_S.DYING})},
    # Fresh again from the new beginning on, settled below it.
    Cause.RESET: dict.fromkeys(_ALL, frozenset({_S.FRESH, _S.SETTLED})),
    # Leases and waits are forgotten; dead letters are written again, each once.
    Cause.RESTART: {_S.LEASED: _RETURNED, _S.WAITING: _RETURNED},
}


def states_between(queue: Queue, start: int, end: int) -> Iterator[Piece[MessageState]]:
    """The states of the messages of [start, end), in order."""
    for marked in queue.ledger.pieces(start, end):
        if not is_open(marked.value):
            is_dying = death_of(marked.value) is not None
            state = MessageState.DYING if is_dying else MessageState.SETTLED
            yield Piece(marked.start, marked.end, state)
            continue
        for held in queue.holds.pieces(marked.start, marked.end):
            if held.value is None:
                ready = MessageState.FRESH if marked.value == FRESH else MessageState.RETURNED
                yield Piece(held.start, held.end, ready)
            else:
                is_leased = held.value.kind is HoldKind.LEASED
                state = MessageState.LEASED if is_leased else MessageState.WAITING
                yield Piece(held.start, held.end, state)
