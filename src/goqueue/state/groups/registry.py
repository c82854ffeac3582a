"""What the parts of the coordinator share: the groups, the timers, the topics, the settings."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import GroupKind
from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.consumer_group import ConsumerGroup
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.room import OBJECT_BYTES
from goqueue.state.groups.settings import GroupOverrides, GroupSettings, MemberTimes
from goqueue.state.groups.share_group import ShareGroup
from goqueue.state.groups.streams.group import StreamsGroup
from goqueue.state.groups.topic_regex import RegexCache
from goqueue.state.groups.topics import Topics
from goqueue.state.machine import Deadlines

TimerKind = Literal[
    "session",  # a member must heartbeat
    "join",  # classic group: members must rejoin
    "sync",  # classic group: members must ask for their assignment
    "revoke",  # consumer or streams group: a member must give back partitions or tasks
    "member-join",  # consumer group: a member of the classic protocol must rejoin
    "member-sync",  # consumer group: a member of the classic protocol must sync
    "downgraded",  # a consumer group has just become a classic one and must rebalance
    "seeds",  # no group: offsets that splits give to groups, the next of them
    "gates",  # classic group: partitions that were withheld may be assigned
    "uncommitted",  # groups that wait for partitions and commit nothing are looked for
    "expire-offsets",
]


AnyGroup = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

_NO_OVERRIDES: Final = GroupOverrides()


# What one partition of the offsets topic hears at most because of a shortened interval: at some
# 100 µs each, one or two percent of a core.
HEARTBEATS_PER_SECOND: Final = 125


class Timer(NamedTuple):
    kind: TimerKind
    group: str = ""
    member: str = ""


@dataclass(slots=True)
class Registry:
    settings: GroupSettings
    # Makes the unguessable part of a new member's id.
    new_id: Callable[[], str]
    # What all groups of the broker may still take.
    # By how much a group may grow.
    spare_bytes: Callable[[str], int]
    topics: Topics = field(default_factory=Topics)
    groups: dict[str, AnyGroup] = field(default_factory=dict)
    deadlines: Deadlines[Timer] = field(default_factory=Deadlines)
    overrides: Mapping[str, GroupOverrides] = field(default_factory=dict)
    regexes: RegexCache = field(default_factory=RegexCache)
    # Recovery is over; from now on records follow decisions taken here.
    live: bool = False

    def consumer_groups(self) -> Iterator[ConsumerGroup]:
        return (each for each in self.groups.values() if isinstance(each, ConsumerGroup))

    def member_times(self, group_id: str, kind: GroupKind) -> MemberTimes:
        """Those of the group itself, else the broker's."""
        own, usual = self.overrides.get(group_id, _NO_OVERRIDES), self.settings
        if kind is GroupKind.SHARE:
            return MemberTimes(
                _first(own.share_session_timeout_ms, usual.share_session_timeout_ms),
                self._interval(own.share_heartbeat_interval_ms, usual.share_heartbeat_interval_ms),
            )
        if kind is GroupKind.STREAMS:
            return MemberTimes(
                _first(own.streams_session_timeout_ms, usual.streams_session_timeout_ms),
                self._interval(
                    own.streams_heartbeat_interval_ms, usual.streams_heartbeat_interval_ms
                ),
            )
        return MemberTimes(
            _first(own.consumer_session_timeout_ms, usual.consumer_session_timeout_ms),
            self._interval(
                own.consumer_heartbeat_interval_ms, usual.consumer_heartbeat_interval_ms
            ),
        )

    def standby_replicas(self, group_id: str) -> int:
        """Of a streams group's stateful tasks."""
        own = self.overrides.get(group_id, _NO_OVERRIDES)
        return _first(own.streams_num_standby_replicas, self.settings.streams_num_standby_replicas)

    def _interval(self, own_ms: int | None, usual_ms: int) -> int:
        """As long as it must be for the number of members, so that rebalances are quick."""
        least_ms = self.settings.heartbeat_min_interval_ms
        if own_ms is not None:
            return own_ms
        if least_ms is None:
            return usual_ms
        # Every member has a session deadline here, and few have another one.
        affordable_ms = len(self.deadlines) * 1_000 // HEARTBEATS_PER_SECOND
        return min(max(least_ms, affordable_ms), usual_ms)

    def check_said(
        self, group_id: str, group_bytes: int, before_bytes: int | None, after_bytes: int
    ) -> None:
        """Refuse a member that says more than there is room for; None: it is new. What does not
        grow is never refused: a full broker goes on with the groups it has."""
        grown = after_bytes - (before_bytes or 0)
        if before_bytes is not None and grown <= 0:
            return
        settings = self.settings
        if after_bytes > settings.member_max_bytes:
            limit = "group.member.max.bytes"
        elif group_bytes + grown > settings.group_max_bytes:
            limit = "group.max.bytes"
        elif grown + OBJECT_BYTES > self.spare_bytes(group_id):
            limit = "all.groups.max.bytes"
        else:
            return
        raise Refused(GroupError.GROUP_MAX_SIZE_REACHED, f"subscription: beyond {limit}")

    def said_bytes(self) -> Iterator[tuple[str, int]]:
        """By members of the classic protocol: it is stored only when their rebalance is over, and
        kept in memory apart from that."""
        return (
            (group.group_id, group.subscription_bytes + OBJECT_BYTES * len(group.members))
            for group in self.groups.values()
            if isinstance(group, ClassicGroup)
        )

    def start_session(self, group_id: str, member_id: str, timeout_ms: int, now_ms: int) -> None:
        self.deadlines.set(Timer("session", group_id, member_id), now_ms + timeout_ms)

    def end_session(self, group_id: str, member_id: str) -> None:
        self.deadlines.cancel(Timer("session", group_id, member_id))

    def cancel_member_timers(self, group_id: str, member_id: str) -> None:
        for kind in ("session", "revoke", "member-join", "member-sync"):
            self.deadlines.cancel(Timer(kind, group_id, member_id))


def _first(own: int | None, usual: int) -> int:
    return usual if own is None else own
