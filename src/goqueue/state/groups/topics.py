"""What the coordinator must know of topics. Passed in, never fetched."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID


class TopicInfo(NamedTuple):
    name: str
    id: UUID
    partition_count: int
    is_internal: bool = False


class TopicChanges(NamedTuple):
    """Topic names that differ between two moments. Made again under another id counts as both."""

    added: frozenset[str]
    deleted: frozenset[str]
    resized: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.added | self.deleted | self.resized


class Topics:
    """All topics at one moment; immutable. What follows from them is worked out once for all the
    shards of the coordinator, which are told one after another."""

    __slots__ = ("_changes", "by_id", "by_name", "public_names")

    by_name: Mapping[str, TopicInfo]
    by_id: Mapping[UUID, TopicInfo]
    # Internal topics are for those who ask for them by name.
    public_names: frozenset[str]

    def __init__(self, topics: Iterable[TopicInfo] = ()) -> None:
        self.by_name = {topic.name: topic for topic in topics}
        self.by_id = {topic.id: topic for topic in self.by_name.values()}
        self.public_names = frozenset(
            topic.name for topic in self.by_name.values() if not topic.is_internal
        )
        self._changes: tuple[Topics, TopicChanges] | None = None

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        return frozenset(self.by_name[name].id for name in names if name in self.by_name)

    def changes_since(self, before: "Topics") -> TopicChanges:
        if self._changes is None or self._changes[0] is not before:
            self._changes = before, _changes(before.by_name, self.by_name)
        return self._changes[1]


def _changes(old: Mapping[str, TopicInfo], new: Mapping[str, TopicInfo]) -> TopicChanges:
    both = old.keys() & new.keys()
    remade = {name for name in both if old[name].id != new[name].id}
    resized = {n for n in both - remade if old[n].partition_count != new[n].partition_count}
    return TopicChanges(
        added=frozenset((new.keys() - old.keys()) | remade),
        deleted=frozenset((old.keys() - new.keys()) | remade),
        resized=frozenset(resized),
    )
