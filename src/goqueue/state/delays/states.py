"""The states of a delayed message, and what moves it from one to the next: the whole on one page.

                  Scheduled                     Claimed            (append)
    (nothing) ──┬───────────► NEAR ──────────┬──────────► CLAIMED ──────────► SENT
                │              ▲ (time)      │               │                  │
                └───────────► FAR ───────────┘               │ Delivered        │ Delivered
                               │                             └────► SETTLED ◄───┘
                               │ Cancelled, from NEAR as well
                               └──────────► CANCELLED

A topic that is deleted takes its messages along from every state (`Dropped`), and a group that a
crash cut short never was (`Abandoned`). Moves with a capital are notes in the log, so that
replaying the log makes them again. The two others are not: time passes by itself, and what was
appended to a target is known to be there by its producer's sequence, so that a start takes all
that is SENT for CLAIMED and appends it again without harm.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from goqueue.state.delays.records import (
    Abandoned,
    Cancelled,
    Claimed,
    Delivered,
    Dropped,
    Note,
    Restarted,
    Scheduled,
)


class DelayState(Enum):
    # Due within the next hours: in memory, with a timer; then in line for delivery.
    NEAR = "near"
    # Due later: in the index on disk, and in memory until the index has it.
    FAR = "far"
    # Written down as part of one batch of one producer to its target; it can not be taken back.
    CLAIMED = "claimed"
    # In its target's log, and not known to stay there in a power cut. Not written down.
    SENT = "sent"
    # The ends: the message is forgotten here.
    SETTLED = "settled"
    CANCELLED = "cancelled"
    DROPPED = "dropped"
    ABANDONED = "abandoned"


_S = DelayState

# Those that can still be cancelled, listed, and written again elsewhere in the log.
WAITING: Final = frozenset({_S.NEAR, _S.FAR})
ENDED: Final = frozenset({_S.SETTLED, _S.CANCELLED, _S.DROPPED, _S.ABANDONED})

# What each note does to the messages it is about, by the state they are in; what is not in the
# table does not happen.
MOVES: Final[Mapping[type[Note] | type[Scheduled], Mapping[DelayState, DelayState]]] = {
    # Written again, so that the old part of the log can go; the first time makes it NEAR or FAR.
    Scheduled: {_S.NEAR: _S.NEAR, _S.FAR: _S.FAR},
    # From FAR only in a replay after the clock was set back.
    Claimed: {_S.NEAR: _S.CLAIMED, _S.FAR: _S.CLAIMED},
    # The target has lost what it had kept: the same messages go under another producer.
    Restarted: {_S.CLAIMED: _S.CLAIMED},
    Delivered: {_S.CLAIMED: _S.SETTLED, _S.SENT: _S.SETTLED},
    Cancelled: {_S.NEAR: _S.CANCELLED, _S.FAR: _S.CANCELLED},
    Dropped: {
        _S.NEAR: _S.DROPPED,
        _S.FAR: _S.DROPPED,
        _S.CLAIMED: _S.DROPPED,
        _S.SENT: _S.DROPPED,
    },
    Abandoned: {_S.NEAR: _S.ABANDONED, _S.FAR: _S.ABANDONED},
}
