"""What the coordinator must know of topics. Passed in, never fetched."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID
from weakref import ReferenceType, ref

from goqueue.model.layouts import Split


class TopicInfo(NamedTuple):
    name: str
    id: UUID
    partition_count: int
    is_internal: bool = False
    splits: tuple[Split, ...] = ()


class TopicChanges(NamedTuple):
    """Topic names that differ between two moments. Made again under another id counts as both;
    what is split, or knows the ends of its parents, counts as resized."""

    added: frozenset[str]
    deleted: frozenset[str]
    resized: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.added | self.deleted | self.resized


NO_CHANGES: Final = TopicChanges(frozenset(), frozenset(), frozenset())


class Topics:
    """All topics at one moment; immutable. What follows from them is worked out once for all the
    shards of the coordinator, which are told one after another."""

    __slots__ = (
        "__weakref__",
        "_before",
        "_changes",
        "by_id",
        "by_name",
        "public_names",
        "split_names",
    )

    by_name: Mapping[str, TopicInfo]
    by_id: Mapping[UUID, TopicInfo]
    # Internal topics are for those who ask for them by name.
    public_names: frozenset[str]
    # Those whose partitions may have to wait for others.
    split_names: frozenset[str]

    def __init__(self, topics: Iterable[TopicInfo] = ()) -> None:
        self.by_name = {topic.name: topic for topic in topics}
        self.by_id = {topic.id: topic for topic in self.by_name.values()}
        self.public_names = frozenset(
            topic.name for topic in self.by_name.values() if not topic.is_internal
        )
        self.split_names = frozenset(name for name, topic in self.by_name.items() if topic.splits)
        # Not held: each moment would hold the one before, back to the first.
        self._before: ReferenceType[Topics] | None = None
        self._changes = NO_CHANGES

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        return frozenset(self.by_name[name].id for name in names if name in self.by_name)

    def edited(self, edits: Mapping[str, TopicInfo | None]) -> "Topics":
        """With these by their names, and without those that are None."""
        after = Topics()
        by_name, by_id = dict(self.by_name), dict(self.by_id)
        for name, topic in edits.items():
            known = by_name.pop(name, None)
            if known is not None:
                del by_id[known.id]
            if topic is not None:
                by_name[name] = by_id[topic.id] = topic
        after.by_name, after.by_id = by_name, by_id
        public = {name for name, topic in edits.items() if topic and not topic.is_internal}
        after.public_names = self.public_names.difference(edits).union(public)
        split = {name for name, topic in edits.items() if topic and topic.splits}
        after.split_names = self.split_names.difference(edits).union(split)
        after._before = ref(self)
        after._changes = _changes(
            {name: self.by_name[name] for name in edits if name in self.by_name},
            {name: topic for name, topic in edits.items() if topic is not None},
        )
        return after

    def changes_since(self, before: "Topics") -> TopicChanges:
        if self._before is None or self._before() is not before:
            self._before = ref(before)
            self._changes = _changes(before.by_name, self.by_name)
        return self._changes


def _changes(old: Mapping[str, TopicInfo], new: Mapping[str, TopicInfo]) -> TopicChanges:
    both = old.keys() & new.keys()
    remade = {name for name in both if old[name].id != new[name].id}
    resized = {
        name
        for name in both - remade
        if (old[name].partition_count, old[name].splits)
        != (new[name].partition_count, new[name].splits)
    }
    return TopicChanges(
        added=frozenset((new.keys() - old.keys()) | remade),
        deleted=frozenset((old.keys() - new.keys()) | remade),
        resized=frozenset(resized),
    )
