"""Failures that pass by themselves, so that whoever has time asks again."""

from typing import Final

from goqueue.model.errors import (
    BrokerUnreachable,
    NotLeader,
    OffsetNotAvailable,
    Overloaded,
    RequestTimedOut,
    StateLoading,
)

# This broker does not lead any more, or leads only just: nothing was changed.
NOT_LED_YET: Final = (NotLeader, OffsetNotAvailable, StateLoading)
# The leader is gone, or as above: over as soon as one was elected.
UNTIL_LED: Final = (*NOT_LED_YET, BrokerUnreachable)
# Also one that has no room for further calls, or no time.
PASSING: Final = (*UNTIL_LED, Overloaded, RequestTimedOut)
