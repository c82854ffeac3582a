"""How many tasks a topology has and which of its internal topics are missing, from the topics.

Counts follow from the source topics: a repartition topic has as many partitions as the largest
topic that its writers read, topics that are joined have equally many, a changelog has one for each
task.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from goqueue.model.groups.streams_messages import DescribedSubtopology, Status, StatusCode
from goqueue.model.groups.topology import ApplicationTopic, CopartitionGroup, Subtopology, Topology
from goqueue.state.groups.topics import Topics

# Tasks of one group, standbys not counted. One member may have them all, and tells what it has in
# one request (`request.max.elements`). To assign them anew with two standbys each takes a tenth of
# a second or two.
TASKS_MAX: Final = 10_000
# Topics named in a message of a status.
_NAMED_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    tasks: int
    is_stateful: bool
    # Partitions of the topics that it reads.
    reads: Mapping[str, int]

    def partitions_of(self, tasks: Iterable[int]) -> dict[str, frozenset[int]]:
        """What tasks read. A task beyond a topic's last partition reads nothing of it."""
        chosen = frozenset(tasks)
        return {
            topic: frozenset(number for number in chosen if number < count)
            for topic, count in self.reads.items()
        }


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology with its topics. With a status it is not ready: nobody has tasks."""

    status: Status | None = None
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    # All internal topics, with their counts; and those that are not there.
    internal_topics: Mapping[str, ApplicationTopic] = field(default_factory=dict)
    missing_topics: tuple[ApplicationTopic, ...] = ()

    @property
    def is_ready(self) -> bool:
        return self.status is None

    def described(self, topology: Topology) -> tuple[DescribedSubtopology, ...] | None:
        if not self.subtopologies:
            return None
        return tuple(
            DescribedSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                sink_topics=each.sink_topics,
                repartition_topics=self._counted(each.repartition_topics),
                changelog_topics=self._counted(each.changelog_topics),
            )
            for each in topology.subtopologies
        )

    def _counted(self, topics: Iterable[ApplicationTopic]) -> tuple[ApplicationTopic, ...]:
        return tuple(self.internal_topics.get(topic.name, topic) for topic in topics)


class _Unfit(Exception):
    """The topics do not fit the topology; the status says why."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def configured(topology: Topology, topics: Topics) -> ConfiguredTopology:
    try:
        return _configured(topology, topics)
    except _Unfit as unfit:
        return ConfiguredTopology(status=unfit.status)


def _configured(topology: Topology, topics: Topics) -> ConfiguredTopology:
    counts = _source_counts(topology, topics)
    _count_repartition_topics(topology, counts)
    for subtopology in topology.subtopologies:
        for group in subtopology.copartition_groups:
            _copartition(subtopology, group, counts)
    found = {
        each.subtopology_id: ConfiguredSubtopology(
            tasks=max(counts[name] for name in each.read_topics),
            is_stateful=bool(each.changelog_topics),
            reads={name: counts[name] for name in each.read_topics},
        )
        for each in topology.subtopologies
    }
    total = sum(each.tasks for each in found.values())
    if total > TASKS_MAX:
        raise _incorrect(f"the topology has {total} tasks; the limit is {TASKS_MAX}")
    internal = {
        topic.name: msgspec.structs.replace(topic, partitions=count)
        for topic, count in _internal(topology, counts, found)
    }
    missing = tuple(topic for name, topic in internal.items() if name not in topics.by_name)
    for name, topic in internal.items():
        there = topics.by_name.get(name)
        if there is not None and there.partition_count != topic.partitions:
            raise _incorrect(
                f"topic {name!r} has {there.partition_count} partitions; the topology needs "
                f"{topic.partitions}"
            )
    status = None
    if missing:
        names = _listed(topic.name for topic in missing)
        status = Status(
            StatusCode.MISSING_INTERNAL_TOPICS, f"internal topics are being made: {names}"
        )
    return ConfiguredTopology(status, found, internal, missing)


def _source_counts(topology: Topology, topics: Topics) -> dict[str, int]:
    names = topology.source_topics
    missing = sorted(names - topics.by_name.keys())
    if missing:
        raise _Unfit(
            StatusCode.MISSING_SOURCE_TOPICS, f"source topics are missing: {_listed(missing)}"
        )
    return {name: topics.by_name[name].partition_count for name in names}


def _count_repartition_topics(topology: Topology, counts: dict[str, int]) -> None:
    """Fixed ones first; then, step by step, those whose writers' topics are all known. Where that
    leads no further, in a circle, those of which some are known."""
    waiting: dict[str, list[Subtopology]] = {}
    for subtopology in topology.subtopologies:
        for topic in subtopology.repartition_topics:
            if topic.partitions:
                counts[topic.name] = topic.partitions
            else:
                waiting[topic.name] = []
    for subtopology in topology.subtopologies:
        for name in subtopology.sink_topics:
            if name in waiting:
                waiting[name].append(subtopology)
    while waiting:
        known = {name: _all_known(writers, counts) for name, writers in waiting.items()}
        found = {name: count for name, count in known.items() if count is not None}
        if not found:
            some = {name: _most(writers, counts) for name, writers in waiting.items()}
            found = {name: count for name, count in some.items() if count}
        if not found:
            raise _incorrect(f"nothing says how many partitions to make: {_listed(waiting)}")
        counts.update(found)
        for name in found:
            del waiting[name]


def _all_known(writers: Iterable[Subtopology], counts: Mapping[str, int]) -> int | None:
    read = [name for writer in writers for name in writer.read_topics]
    if not read or any(name not in counts for name in read):
        return None
    return max(counts[name] for name in read)


def _most(writers: Iterable[Subtopology], counts: Mapping[str, int]) -> int:
    return max((counts.get(n, 0) for writer in writers for n in writer.read_topics), default=0)


def _copartition(subtopology: Subtopology, group: CopartitionGroup, counts: dict[str, int]) -> None:
    """Source topics decide, else repartition topics of a fixed number, else the largest."""
    sources = [subtopology.source_topics[place] for place in group.source_topics]
    repartitions = [subtopology.repartition_topics[place] for place in group.repartition_topics]
    fixed = [topic.name for topic in repartitions if topic.partitions]
    flexible = [topic.name for topic in repartitions if not topic.partitions]
    deciding = {name: counts[name] for name in (*sources, *fixed)}
    if len(set(deciding.values())) > 1:
        said = ", ".join(f"{name!r} has {deciding[name]}" for name in sorted(deciding)[:_NAMED_MAX])
        raise _incorrect(f"topics that are joined need equally many partitions: {said}")
    if deciding:
        wanted = next(iter(deciding.values()))
    else:
        wanted = max((counts[name] for name in flexible), default=0)
    counts.update(dict.fromkeys(flexible, wanted))


def _internal(
    topology: Topology, counts: Mapping[str, int], found: Mapping[str, ConfiguredSubtopology]
) -> Iterator[tuple[ApplicationTopic, int]]:
    """A changelog that is also a source topic, which Kafka Streams may have, is there already."""
    for each in topology.subtopologies:
        yield from ((topic, counts[topic.name]) for topic in each.repartition_topics)
        for topic in each.changelog_topics:
            if topic.name not in counts:
                yield topic, found[each.subtopology_id].tasks


def _incorrect(detail: str) -> _Unfit:
    return _Unfit(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)


def _listed(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - _NAMED_MAX} more" if len(every) > _NAMED_MAX else ""
    return ", ".join(every[:_NAMED_MAX]) + more
