"""Partitions that a group must not read yet, because of a split that keeps the order of keys.

A child of a split is withheld from a group until the group has committed all of the child's parent
up to the parent's end (`state/layouts.py`). Members of the consumer protocol do not get it in their
target; of the classic protocol, it is taken out of what the leader assigned. What was handed out
once stays handed out: a later commit of an older offset takes nothing away from a member.

A group that has committed nothing at all in a parent may have begun at its end, or keep its offsets
elsewhere; it is not kept waiting for ever.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeGuard
from uuid import UUID

from goqueue.model.groups.consumer_protocol import (
    MalformedProtocol,
    read_assignment,
    without_partitions,
)
from goqueue.model.layouts import withheld
from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.consumer_group import ConsumerGroup
from goqueue.state.groups.leader_assignment import STRATEGIES
from goqueue.state.groups.offset_table import OffsetTable
from goqueue.state.groups.records import CommittedOffset, OffsetKey, record
from goqueue.state.groups.registry import Registry, Timer
from goqueue.state.groups.share_group import ShareGroup
from goqueue.state.groups.topics import TopicInfo
from goqueue.state.layouts import ends_of
from goqueue.state.machine import StateRecord

# Members commit each for itself, every few seconds: a rebalance for each would be many.
OPENED_TOGETHER_MS: Final = 1_000
# Looks at groups without commits, in the time that they wait.
_LOOKS: Final = 4

# Tells an offset that was given to a group from one that it committed.
SEEDED: Final = "split"

_NONE: Final[frozenset[int]] = frozenset()
_NOTHING: Final[frozenset[str]] = frozenset()


class _Uncommitted(NamedTuple):
    group: str
    topic: UUID
    parent: int


class Gates:
    def __init__(self, registry: Registry, table: OffsetTable) -> None:
        self._registry = registry
        self._table = table
        # Volatile: since when a group with members has nothing committed, and who waited enough.
        self._since_ms: dict[_Uncommitted, int] = {}
        self._waived: set[_Uncommitted] = set()
        # Volatile: classic groups whose leaders assigned what was not known here.
        self._ahead: set[str] = set()

    # --- questions ------------------------------------------------------------------------

    def withheld(self, group_id: str, topic: TopicInfo) -> frozenset[int]:
        if not topic.splits:
            return _NONE
        committed = self._committed(group_id, topic)

        def is_through(parent: int, end: int) -> bool:
            found = committed.get(parent)
            if _is_committed(found):
                return found.offset >= end
            return _Uncommitted(group_id, topic.id, parent) in self._waived

        return withheld(topic.splits, is_through) - self._handed_out(group_id, topic)

    def is_complete(self, group: ClassicGroup) -> bool:
        """Whether everything that the group may read was assigned to somebody."""
        for name in group.subscribed_topics or ():
            topic = self._registry.topics.by_name.get(name)
            if topic is None or (not topic.splits and group.group_id not in self._ahead):
                continue
            missing = set(range(topic.partition_count)) - self._handed_out(group.group_id, topic)
            if missing - self.withheld(group.group_id, topic):
                return False
        return True

    def _committed(self, group_id: str, topic: TopicInfo) -> Mapping[int, CommittedOffset]:
        return self._table.by_group.get(group_id, {}).get(topic.name, {})

    def _handed_out(self, group_id: str, topic: TopicInfo) -> set[int]:
        group = self._registry.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            targets = (target.get(topic.id, _NONE) for target in group.targets.values())
            return set[int]().union(*targets)
        if isinstance(group, ClassicGroup):
            return set(_assigned(group, topic.name))
        return set()

    # --- what members of the classic protocol are assigned --------------------------------

    def gated(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """What the leader assigned, without what is withheld, and without partitions that are not
        known here yet: the leader may have heard of a split before. Strategies that are not known
        here may say in data of their own who gets what: they stay as they are."""
        if group.protocol_name not in STRATEGIES:
            return assignments
        known = self._registry.topics.by_name
        held = {
            name: self.withheld(group.group_id, known[name])
            for name in self._registry.topics.split_names & (group.subscribed_topics or _NOTHING)
        }
        self._ahead.discard(group.group_id)

        def is_withheld(topic: str, number: int) -> bool:
            if topic in known and number >= known[topic].partition_count:
                self._ahead.add(group.group_id)
                return True
            return number in held.get(topic, _NONE)

        return {
            member: without_partitions(data, is_withheld) for member, data in assignments.items()
        }

    # --- opening --------------------------------------------------------------------------

    def committed(
        self, group_id: str, topic: str, partition: int, offset: int, now_ms: int
    ) -> None:
        """Before it takes effect: whether it opens something."""
        if topic not in self._registry.topics.split_names:
            return
        before = self._table.get(group_id, topic, partition)
        since = -1 if before is None else before.offset
        splits = self._registry.topics.by_name[topic].splits
        if any(since < end <= offset for end in ends_of(splits, partition)):
            self._opened(group_id, now_ms + OPENED_TOGETHER_MS)

    def topics_changed(self, names: Iterable[str]) -> None:
        """The ends of parents may be known now. Consumer groups are told by who calls this."""
        for group_id in self._ahead:
            self._opened(group_id, 0)
        changed = self._registry.topics.split_names.intersection(names)
        if not changed:
            return
        for group in self._registry.groups.values():
            if isinstance(group, ClassicGroup) and changed & (group.subscribed_topics or _NOTHING):
                self._opened(group.group_id, 0)
        self._registry.deadlines.set_if_absent(Timer("uncommitted"), 0)

    def loaded(self, now_ms: int) -> None:
        if self._registry.topics.split_names:
            self.topics_changed(self._registry.topics.split_names)
            self._registry.deadlines.set(Timer("uncommitted"), now_ms)

    def _opened(self, group_id: str, at_ms: int) -> None:
        group = self._registry.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.topics_changed = True
        elif isinstance(group, ClassicGroup):
            self._registry.deadlines.set_if_absent(Timer("gates", group_id), at_ms)

    # --- groups that commit nothing -------------------------------------------------------

    def look_for_uncommitted(self, now_ms: int) -> None:
        """From time to time, for as long as there are split topics."""
        if not self._registry.topics.split_names:
            self._since_ms.clear()
            self._waived.clear()
            return
        wait_ms = self._registry.settings.uncommitted_gate_ms
        found = set(self._uncommitted())
        self._waived &= found
        self._since_ms = {each: self._since_ms.get(each, now_ms) for each in found}
        for each, since_ms in self._since_ms.items():
            if now_ms - since_ms >= wait_ms and each not in self._waived:
                self._waived.add(each)
                self._opened(each.group, now_ms + OPENED_TOGETHER_MS)
        self._registry.deadlines.set(Timer("uncommitted"), now_ms + wait_ms // _LOOKS)

    def _uncommitted(self) -> Iterator[_Uncommitted]:
        """Of groups with members: parents with an end, and nothing committed in them."""
        topics = self._registry.topics
        for group in self._registry.groups.values():
            if group.is_empty or isinstance(group, ShareGroup):
                continue
            for name in topics.split_names:
                if not group.is_subscribed_to(name):
                    continue
                topic = topics.by_name[name]
                committed = self._committed(group.group_id, topic)
                for parent in {each for split in topic.splits for each in split.ends}:
                    if not _is_committed(committed.get(parent)):
                        yield _Uncommitted(group.group_id, topic.id, parent)

    # --- where children are read from -----------------------------------------------------

    def seeds(self, names: Iterable[str]) -> Iterator[StateRecord]:
        """Offset 0 of children, for groups that would else begin wherever their clients choose to:
        those that have committed something in the parent, and those that read the topic while it
        is split."""
        topics = self._registry.topics
        for name in sorted(topics.split_names.intersection(names)):
            topic = topics.by_name[name]
            for group_id in self._readers(topic):
                yield from self._seeds(group_id, topic)

    def _readers(self, topic: TopicInfo) -> list[str]:
        found = {group for group, topics in self._table.by_group.items() if topic.name in topics}
        if topic.splits[-1].is_draining:
            found.update(
                group.group_id
                for group in self._registry.groups.values()
                if not isinstance(group, ShareGroup) and group.is_subscribed_to(topic.name)
            )
        return sorted(found)

    def _seeds(self, group_id: str, topic: TopicInfo) -> Iterator[StateRecord]:
        committed = dict(self._committed(group_id, topic))
        for split in topic.splits:
            for child in range(split.parents, split.partitions) if split.is_ordered else ():
                parent = committed.get(child % split.parents)
                if child in committed or (parent is None and not split.is_draining):
                    continue
                seed = committed[child] = CommittedOffset(
                    offset=0,
                    leader_epoch=-1,
                    metadata=SEEDED,
                    # It is forgotten when the parent's is.
                    commit_ms=split.since_ms if parent is None else parent.commit_ms,
                    sequence=self._table.sequence + 1,
                    expire_ms=-1 if parent is None else parent.expire_ms,
                )
                yield record(OffsetKey(group_id, topic.name, child), seed)


def _is_committed(found: CommittedOffset | None) -> TypeGuard[CommittedOffset]:
    return found is not None and found.metadata != SEEDED


def _assigned(group: ClassicGroup, topic: str) -> Iterator[int]:
    for member in group.members.values():
        try:
            yield from read_assignment(member.assignment).partitions.get(topic, ())
        except MalformedProtocol:
            continue
