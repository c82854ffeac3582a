"""The topology of a streams application as its members tell it (KIP-1071). It is stored as it is.

A subtopology reads source topics and repartition topics, writes to the repartition topics of
others, and has changelog topics for its state. Each partition number of what it reads is one task.
"""

from collections.abc import Iterator

import msgspec


class Endpoint(msgspec.Struct, array_like=True, frozen=True):
    """Where a member answers queries of its state."""

    host: str
    port: int


class ApplicationTopic(msgspec.Struct, array_like=True, frozen=True):
    """A topic that the broker makes for the application."""

    name: str
    # 0: as many as follow from the topics that it is fed from.
    partitions: int = 0
    # 0 or -1: the broker's default.
    replication_factor: int = 0
    config: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(msgspec.Struct, array_like=True, frozen=True):
    """Topics that must have equally many partitions, by their places in the subtopology's lists."""

    source_topics: tuple[int, ...] = ()
    repartition_topics: tuple[int, ...] = ()


class Subtopology(msgspec.Struct, array_like=True, frozen=True):
    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    # What it writes to, and another subtopology reads.
    sink_topics: tuple[str, ...] = ()
    # What it reads besides the source topics.
    repartition_topics: tuple[ApplicationTopic, ...] = ()
    changelog_topics: tuple[ApplicationTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def read_topics(self) -> Iterator[str]:
        yield from self.source_topics
        yield from (topic.name for topic in self.repartition_topics)

    @property
    def internal_topics(self) -> tuple[ApplicationTopic, ...]:
        return self.repartition_topics + self.changelog_topics


class Topology(msgspec.Struct, array_like=True, frozen=True):
    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    @property
    def source_topics(self) -> frozenset[str]:
        return frozenset(name for each in self.subtopologies for name in each.source_topics)

    @property
    def topics(self) -> frozenset[str]:
        """All that it reads, writes to or keeps its state in."""
        return frozenset(
            name
            for each in self.subtopologies
            for name in (
                *each.source_topics,
                *each.sink_topics,
                *(topic.name for topic in each.internal_topics),
            )
        )
