"""What the coordinator must know of topics. Passed in, never fetched."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID


class TopicInfo(NamedTuple):
    name: str
    id: UUID
    partition_count: int
    is_internal: bool = False


class Topics:
    """All topics at one moment; immutable."""

    __slots__ = ("by_id", "by_name")

    by_name: Mapping[str, TopicInfo]
    by_id: Mapping[UUID, TopicInfo]

    def __init__(self, topics: Iterable[TopicInfo] = ()) -> None:
        self.by_name = {topic.name: topic for topic in topics}
        self.by_id = {topic.id: topic for topic in self.by_name.values()}

    def ids_of(self, names: Iterable[str]) -> frozenset[UUID]:
        return frozenset(self.by_name[name].id for name in names if name in self.by_name)


class TopicChanges(NamedTuple):
    """Topic names that differ between two moments. Made again under another id counts as both."""

    added: frozenset[str]
    deleted: frozenset[str]
    resized: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.added | self.deleted | self.resized


def topic_changes(before: Topics, after: Topics) -> TopicChanges:
    old, new = before.by_name, after.by_name
    both = old.keys() & new.keys()
    remade = {name for name in both if old[name].id != new[name].id}
    resized = {n for n in both - remade if old[n].partition_count != new[n].partition_count}
    return TopicChanges(
        added=frozenset((new.keys() - old.keys()) | remade),
        deleted=frozenset((old.keys() - new.keys()) | remade),
        resized=frozenset(resized),
    )
