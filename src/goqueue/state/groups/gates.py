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
from goqueue.model.layouts import Split, withheld
from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.consumer_group import ConsumerGroup
from goqueue.state.groups.leader_assignment import STRATEGIES
from goqueue.state.groups.offset_table import OffsetTable
from goqueue.state.groups.records import CommittedOffset, OffsetKey, record
from goqueue.state.groups.registry import Registry, Timer
from goqueue.state.groups.share_group import ShareGroup
from goqueue.state.groups.topics import TopicInfo, Topics
from goqueue.state.layouts import ends_of
from goqueue.state.machine import StateRecord

# Members commit each for itself, every few seconds: a rebalance for each would be many.
OPENED_TOGETHER_MS: Final = 1_000
# Looks at groups without commits, in the time that they wait.
_LOOKS: Final = 4

# Offsets that are given to groups in one turn, and the rest of the last group's: some 0.4 ms.
SEEDS_MAX: Final = 200

# Tells an offset that was given to a group from one that it committed.
SEEDED: Final = "split"

_NONE: Final[frozenset[int]] = frozenset()
_NOTHING: Final[frozenset[str]] = frozenset()


class _Reader(NamedTuple):
    group: str
    topic: str


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
        # Volatile: groups that have yet to be given offsets in a topic, and the epochs of splits
        # that are recent. They get no children before.
        self._to_seed: dict[_Reader, frozenset[int]] = {}

    # --- questions ------------------------------------------------------------------------

    def withheld(self, group_id: str, topic: TopicInfo) -> frozenset[int]:
        if not topic.splits:
            return _NONE
        if _Reader(group_id, topic.name) in self._to_seed:
            return _children(topic.splits) - self._handed_out(group_id, topic)
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

    def forget(self, group_id: str) -> None:
        """It is deleted; another of that name has waited for nothing yet."""
        self._waived = {each for each in self._waived if each.group != group_id}
        self._since_ms = {e: since for e, since in self._since_ms.items() if e.group != group_id}

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
        """Of groups with members: parents with an end, and nothing committed in them, though the
        group may read them. Who still waits for a parent could commit nothing there, and must not
        get the parent and its children at once when the wait is over."""
        topics = self._registry.topics
        for group in self._registry.groups.values():
            if group.is_empty or isinstance(group, ShareGroup):
                continue
            for name in topics.split_names:
                if not group.is_subscribed_to(name):
                    continue
                topic = topics.by_name[name]
                committed = self._committed(group.group_id, topic)
                parents = {each for split in topic.splits for each in split.ends}
                for parent in parents - self.withheld(group.group_id, topic):
                    if not _is_committed(committed.get(parent)):
                        yield _Uncommitted(group.group_id, topic.id, parent)

    # --- where children are read from -----------------------------------------------------

    def seed(self, names: Iterable[str], before: Topics) -> None:
        """Offset 0 of children, for groups that would else begin wherever their clients choose to:
        those that have committed something in the parent, and those that read the topic while it
        is split. `before`: topics as they were; who came while a split drained is seen at its end.
        A topic may have thousands of groups: records come in slices, one a turn.
        """
        topics = self._registry.topics
        for name in sorted(topics.split_names.intersection(names)):
            topic = topics.by_name[name]
            recent = _draining(topic) | _draining(before.by_name.get(name))
            for group_id in self._readers(topic, with_members=bool(recent)):
                known = self._to_seed.get(_Reader(group_id, name), frozenset())
                self._to_seed[_Reader(group_id, name)] = recent | known
        if self._to_seed:
            self._registry.deadlines.set(Timer("seeds"), 0)

    def next_seeds(self) -> list[StateRecord]:
        records: list[StateRecord] = []
        while self._to_seed and len(records) < SEEDS_MAX:
            reader = next(iter(self._to_seed))
            recent = self._to_seed.pop(reader)
            topic = self._registry.topics.by_name.get(reader.topic)
            if topic is not None and self._is_reader(reader):
                records += self._seeds(reader.group, topic, recent)
            self._opened(reader.group, 0)
        if self._to_seed:
            self._registry.deadlines.set(Timer("seeds"), 0)
        return records

    def _is_reader(self, reader: _Reader) -> bool:
        if reader.topic in self._table.by_group.get(reader.group, {}):
            return True
        group = self._registry.groups.get(reader.group)
        return group is not None and group.is_subscribed_to(reader.topic)

    def committed_seeds(
        self, group_id: str, places: Mapping[tuple[str, int], CommittedOffset]
    ) -> Iterator[StateRecord]:
        """The same for a group that comes after the split, and commits something in a parent below
        its end; `places` is all that it commits now. A group whose first offset lies behind the end
        has begun later, and begins in children where it wants."""
        for (name, parent), committed in places.items():
            if name not in self._registry.topics.split_names:
                continue
            topic = self._registry.topics.by_name[name]
            known = self._committed(group_id, topic)
            for child in _descendants(topic.splits, parent, committed.offset):
                if child not in known and (name, child) not in places:
                    seed = _seed(committed.commit_ms, committed.expire_ms)
                    yield record(OffsetKey(group_id, name, child), seed)

    def _readers(self, topic: TopicInfo, *, with_members: bool) -> list[str]:
        found = {group for group, topics in self._table.by_group.items() if topic.name in topics}
        if with_members:
            found.update(
                group.group_id
                for group in self._registry.groups.values()
                if not isinstance(group, ShareGroup) and group.is_subscribed_to(topic.name)
            )
        return sorted(found)

    def _seeds(
        self, group_id: str, topic: TopicInfo, recent: frozenset[int]
    ) -> Iterator[StateRecord]:
        committed = dict(self._committed(group_id, topic))
        for split in topic.splits:
            for child in split.children:
                parent = committed.get(child % split.parents)
                if child in committed or (parent is None and split.epoch not in recent):
                    continue
                # It is forgotten when the parent's is.
                commit_ms = split.since_ms if parent is None else parent.commit_ms
                expire_ms = -1 if parent is None else parent.expire_ms
                seed = committed[child] = _seed(commit_ms, expire_ms)
                yield record(OffsetKey(group_id, topic.name, child), seed)


def _seed(commit_ms: int, expire_ms: int) -> CommittedOffset:
    """Older than whatever the group commits, also in a transaction that is open."""
    return CommittedOffset(
        offset=0,
        leader_epoch=-1,
        metadata=SEEDED,
        commit_ms=commit_ms,
        sequence=0,
        expire_ms=expire_ms,
    )


def _draining(topic: TopicInfo | None) -> frozenset[int]:
    """The epochs of splits that are not over."""
    splits = () if topic is None else topic.splits
    return frozenset(split.epoch for split in splits if split.is_draining)


def _children(splits: tuple[Split, ...]) -> frozenset[int]:
    """All partitions that may ever be withheld."""
    return frozenset(child for split in splits for child in split.children)


def _descendants(splits: tuple[Split, ...], parent: int, offset: int) -> Iterator[int]:
    """Children of a partition that was read up to `offset`, below its end, and what was split off
    those later."""
    found: list[int] = []
    for split in splits:
        if not split.is_ordered or parent >= split.parents:
            continue
        sources = list(found)
        if parent not in split.ends or offset < split.ends[parent]:
            sources.append(parent)
        for source in sources:
            for child in range(source + split.parents, split.partitions, split.parents):
                found.append(child)
                yield child


def _is_committed(found: CommittedOffset | None) -> TypeGuard[CommittedOffset]:
    """By the group itself. Clients may give back the note that they read, with their own offset."""
    return found is not None and (found.metadata != SEEDED or found.offset > 0)


def _assigned(group: ClassicGroup, topic: str) -> Iterator[int]:
    for member in group.members.values():
        try:
            yield from read_assignment(member.assignment).partitions.get(topic, ())
        except MalformedProtocol:
            continue
