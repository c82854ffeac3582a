"""The states of groups and of their members, and what moves them, for all kinds on one page.

A classic group is moved by `ClassicGroup.transition`, a member of a consumer group by `reconcile`;
both refuse a move that is not here. The states of consumer, share and streams groups are not
stored: they follow from members and epochs, and the tables say what one command can make of them. A
test watches every move of every group in its simulated worlds.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final

from goqueue.model.groups.messages import GroupKind


class ClassicState(Enum):
    """Names as Kafka shows them, here and below."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


CLASSIC_MOVES: Final[Mapping[ClassicState, Mapping[ClassicState, str]]] = {
    ClassicState.EMPTY: {
        ClassicState.PREPARING_REBALANCE: "a first member joins",
    },
    ClassicState.PREPARING_REBALANCE: {
        ClassicState.COMPLETING_REBALANCE: "all members have joined, or the time to join is over",
        ClassicState.EMPTY: "nobody is left",
    },
    ClassicState.COMPLETING_REBALANCE: {
        ClassicState.STABLE: "the leader brings the assignment",
        ClassicState.PREPARING_REBALANCE: (
            "a member joins, leaves, falls silent or does not ask for its assignment in time"
        ),
    },
    ClassicState.STABLE: {
        ClassicState.PREPARING_REBALANCE: (
            "a member joins, leaves, falls silent, or changes its subscription"
        ),
    },
}


class ConsumerState(Enum):
    EMPTY = "Empty"
    # The group's epoch is above that of its assignment.
    ASSIGNING = "Assigning"
    # Not every member has arrived at the assignment.
    RECONCILING = "Reconciling"
    STABLE = "Stable"


CONSUMER_MOVES: Final[Mapping[ConsumerState, Mapping[ConsumerState, str]]] = {
    ConsumerState.EMPTY: {
        ConsumerState.STABLE: "a first member joins, and has its partitions at once",
    },
    ConsumerState.ASSIGNING: {
        ConsumerState.RECONCILING: "a heartbeat brings the new assignment",
        ConsumerState.STABLE: "so too, and nobody has to give anything up",
        ConsumerState.EMPTY: "the last member leaves or falls silent",
    },
    ConsumerState.RECONCILING: {
        ConsumerState.STABLE: "the last member arrives",
        ConsumerState.ASSIGNING: "a member leaves or falls silent",
        ConsumerState.EMPTY: "the last member leaves or falls silent",
    },
    ConsumerState.STABLE: {
        ConsumerState.RECONCILING: "a heartbeat joins, changes a subscription or sees new topics",
        ConsumerState.ASSIGNING: "a member leaves or falls silent",
        ConsumerState.EMPTY: "the last member leaves or falls silent",
    },
}


class MemberState(IntEnum):
    """Where a member of a consumer or streams group stands on its way to its target. Numbers are
    stored."""

    STABLE = 0
    # It was told to give partitions up and has not said yet that it did.
    UNREVOKED = 1
    # It is waiting for partitions that another member has not given up yet.
    UNRELEASED = 2


MEMBER_MOVES: Final[Mapping[MemberState, Mapping[MemberState, str]]] = {
    MemberState.STABLE: {
        MemberState.STABLE: "it goes on to an epoch that changes nothing for it, or only adds",
        MemberState.UNREVOKED: "partitions are taken away from it",
        MemberState.UNRELEASED: "it is given partitions that others still have",
    },
    MemberState.UNREVOKED: {
        MemberState.STABLE: "it gave up what it had to, and gets all of its target",
        MemberState.UNREVOKED: "it has not given up all, or more is taken away",
        MemberState.UNRELEASED: "it gave up what it had to, and waits for others to do so",
    },
    MemberState.UNRELEASED: {
        MemberState.STABLE: "the others gave up the last of its partitions",
        MemberState.UNREVOKED: "the target changed, and takes partitions away from it",
        MemberState.UNRELEASED: "it gets some of its partitions, but not all",
    },
}


class ShareState(Enum):
    EMPTY = "Empty"
    STABLE = "Stable"


SHARE_MOVES: Final[Mapping[ShareState, Mapping[ShareState, str]]] = {
    ShareState.EMPTY: {ShareState.STABLE: "a first member joins"},
    ShareState.STABLE: {ShareState.EMPTY: "the last member leaves or falls silent"},
}


class StreamsState(Enum):
    EMPTY = "Empty"
    # Topics are missing or do not fit together: nobody has tasks.
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


_LAST_LEAVES: Final = "the last member leaves or falls silent"

STREAMS_MOVES: Final[Mapping[StreamsState, Mapping[StreamsState, str]]] = {
    StreamsState.EMPTY: {
        StreamsState.NOT_READY: "a first member joins, and topics are missing",
        StreamsState.STABLE: "a first member joins, and has its tasks at once",
    },
    StreamsState.NOT_READY: {
        StreamsState.RECONCILING: "a heartbeat finds all topics",
        StreamsState.STABLE: "so too, and it is the only member",
        StreamsState.EMPTY: _LAST_LEAVES,
    },
    StreamsState.ASSIGNING: {
        StreamsState.RECONCILING: "a heartbeat brings the new assignment",
        StreamsState.STABLE: "so too, and nobody has to give anything up",
        StreamsState.NOT_READY: "a heartbeat finds that a topic has gone",
        StreamsState.EMPTY: _LAST_LEAVES,
    },
    StreamsState.RECONCILING: {
        StreamsState.STABLE: "the last member arrives",
        StreamsState.ASSIGNING: "a member leaves or falls silent",
        StreamsState.NOT_READY: "a heartbeat finds that a topic has gone",
        StreamsState.EMPTY: _LAST_LEAVES,
    },
    StreamsState.STABLE: {
        StreamsState.RECONCILING: "a member joins, or a setting changes the assignment",
        StreamsState.ASSIGNING: "a member leaves or falls silent",
        StreamsState.NOT_READY: "a heartbeat finds that a topic has gone",
        StreamsState.EMPTY: _LAST_LEAVES,
    },
}

# Share groups stay what they are: what they acknowledged would mean nothing to the others.
KIND_CHANGES: Final[Mapping[GroupKind, Mapping[GroupKind, str]]] = {
    GroupKind.CLASSIC: {
        GroupKind.CONSUMER: (
            "a member of the consumer protocol joins a group that is empty or can be converted"
        ),
        GroupKind.STREAMS: "a member of the streams protocol joins an empty group",
    },
    GroupKind.CONSUMER: {
        GroupKind.CLASSIC: (
            "a classic member joins an empty group, or only classic members are left in it"
        ),
    },
    GroupKind.SHARE: {},
    GroupKind.STREAMS: {GroupKind.CLASSIC: "a classic member joins an empty group"},
}
