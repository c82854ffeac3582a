"""How many tasks a topology has, and which topics it lacks."""

import pytest

from goqueue.model.groups.streams_messages import StatusCode
from goqueue.model.groups.topology import ApplicationTopic, CopartitionGroup, Subtopology, Topology
from goqueue.state.groups.streams.topology import TASKS_MAX, ConfiguredTopology, configured
from tests.unit.state.groups.group_world import topics
from tests.unit.state.groups.streams.streams_world import COPY, WORDS, words_topics


def plan(topology: Topology, **counts: int) -> ConfiguredTopology:
    return configured(topology, topics(**{n.replace("_", "-"): c for n, c in counts.items()}))


def tasks_of(found: ConfiguredTopology) -> dict[str, int]:
    return {name: each.tasks for name, each in found.subtopologies.items()}


def test_a_topology_with_all_its_topics_is_ready() -> None:
    found = configured(WORDS, words_topics(3))
    assert found.is_ready
    assert tasks_of(found) == {"0": 3, "1": 3}
    assert [each.is_stateful for each in found.subtopologies.values()] == [False, True]
    assert found.missing_topics == ()


def test_missing_internal_topics_have_the_counts_and_settings_that_they_need() -> None:
    found = plan(WORDS, **{"in": 4})
    assert found.status is not None
    assert found.status.code is StatusCode.MISSING_INTERNAL_TOPICS
    assert found.missing_topics == (
        ApplicationTopic("by-word", 4),
        ApplicationTopic("counts", 4, config=(("cleanup.policy", "compact"),)),
    )
    assert [t.name for t in plan(WORDS, **{"in": 4, "by_word": 4}).missing_topics] == ["counts"]


def test_missing_source_topics_are_named() -> None:
    found = plan(WORDS)
    assert found.status == (StatusCode.MISSING_SOURCE_TOPICS, "source topics are missing: in")
    assert not found.subtopologies
    assert not found.missing_topics


def test_an_internal_topic_of_another_count_does_not_fit() -> None:
    found = plan(WORDS, **{"in": 4, "by_word": 4, "counts": 3})
    assert found.status is not None
    assert found.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "'counts' has 3 partitions; the topology needs 4" in found.status.detail


def test_tasks_are_as_many_as_partitions_of_the_largest_topic() -> None:
    merged = Topology(0, (Subtopology("0", source_topics=("a", "b")),))
    found = plan(merged, a=2, b=5)
    assert tasks_of(found) == {"0": 5}
    reads = found.subtopologies["0"].partitions_of([1, 4])
    assert reads == {"a": frozenset({1}), "b": frozenset({1, 4})}


def joined(**repartition: int) -> Topology:
    """`a` is joined with repartition topics that are fed from `b`."""
    made = tuple(ApplicationTopic(name, count) for name, count in repartition.items())
    return Topology(
        0,
        (
            Subtopology("0", source_topics=("b",), sink_topics=tuple(repartition)),
            Subtopology(
                "1",
                source_topics=("a",),
                repartition_topics=made,
                copartition_groups=(CopartitionGroup((0,), tuple(range(len(made)))),),
            ),
        ),
    )


def test_what_is_joined_has_the_source_topics_count() -> None:
    found = plan(joined(r=0), a=2, b=7)
    assert found.internal_topics["r"].partitions == 2
    assert tasks_of(found) == {"0": 7, "1": 2}


def test_a_fixed_count_must_fit_what_it_is_joined_with() -> None:
    assert tasks_of(plan(joined(r=2), a=2, b=7)) == {"0": 7, "1": 2}
    found = plan(joined(r=3), a=2, b=7)
    assert found.status is not None
    assert found.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "'a' has 2, 'r' has 3" in found.status.detail


def test_repartition_topics_that_are_joined_are_as_large_as_the_largest() -> None:
    topology = Topology(
        0,
        (
            Subtopology("0", source_topics=("a",), sink_topics=("r",)),
            Subtopology("1", source_topics=("b",), sink_topics=("s",)),
            Subtopology(
                "2",
                repartition_topics=(ApplicationTopic("r"), ApplicationTopic("s")),
                copartition_groups=(CopartitionGroup((), (0, 1)),),
            ),
        ),
    )
    found = plan(topology, a=2, b=5)
    assert {t.name: t.partitions for t in found.missing_topics} == {"r": 5, "s": 5}


def test_counts_go_through_chains_and_circles() -> None:
    chain = Topology(
        0,
        (
            # In an order in which nothing is known at first.
            Subtopology("2", repartition_topics=(ApplicationTopic("s"),)),
            Subtopology("1", repartition_topics=(ApplicationTopic("r"),), sink_topics=("s",)),
            Subtopology("0", source_topics=("a",), sink_topics=("r",)),
        ),
    )
    assert tasks_of(plan(chain, a=6)) == {"2": 6, "1": 6, "0": 6}
    circle = Topology(
        0,
        (
            Subtopology(
                "0",
                source_topics=("a",),
                repartition_topics=(ApplicationTopic("r"),),
                sink_topics=("r",),
            ),
        ),
    )
    assert tasks_of(plan(circle, a=3)) == {"0": 3}


def test_a_repartition_topic_that_nobody_writes_has_no_count() -> None:
    lonely = Topology(0, (Subtopology("0", repartition_topics=(ApplicationTopic("r"),)),))
    found = plan(lonely)
    assert found.status is not None
    assert found.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert found.status.detail.endswith(": r")


def test_a_changelog_that_is_a_source_topic_is_not_made() -> None:
    table = Topology(
        0, (Subtopology("0", source_topics=("a",), changelog_topics=(ApplicationTopic("a"),)),)
    )
    found = plan(table, a=3)
    assert found.is_ready
    assert found.subtopologies["0"].is_stateful


@pytest.mark.parametrize(("count", "is_ready"), [(TASKS_MAX, True), (TASKS_MAX + 1, False)])
def test_tasks_are_bounded(count: int, is_ready: bool) -> None:
    found = plan(COPY, **{"in": count})
    assert found.is_ready is is_ready
    assert is_ready or (found.status is not None and str(TASKS_MAX) in found.status.detail)
