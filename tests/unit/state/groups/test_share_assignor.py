"""Promises of the share assignor, for any members and topics."""

from collections import Counter
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.groups.assignment import Assignment
from goqueue.state.groups.share_assignor import ShareMemberSpec, simple

TOPICS = [UUID(int=number) for number in range(1, 4)]

counts_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6), max_size=3)
subscriptions = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(9)]),
    st.frozensets(st.sampled_from(TOPICS), min_size=1),
    max_size=9,
)


def places(assigned: Assignment) -> set[tuple[UUID, int]]:
    return {(topic, number) for topic, numbers in assigned.items() for number in numbers}


def check(
    subscribed: dict[str, frozenset[UUID]],
    counts: dict[UUID, int],
    before: dict[str, Assignment],
) -> dict[str, Assignment]:
    specs = {m: ShareMemberSpec(topics, before.get(m, {})) for m, topics in subscribed.items()}
    found = simple(specs, counts)
    assert found.keys() == subscribed.keys()
    read = Counter(place for assigned in found.values() for place in places(assigned))
    for member, assigned in found.items():
        assert assigned.keys() <= subscribed[member] & counts.keys()
        assert bool(assigned) == bool(subscribed[member] & counts.keys())
    wanted = frozenset().union(*subscribed.values())
    assert read.keys() == {
        (t, n) for t, count in counts.items() if t in wanted for n in range(count)
    }
    if len(set(subscribed.values())) == 1 and read:
        held = [len(places(assigned)) for assigned in found.values()]
        assert max(held) - min(held) <= 1
        assert max(read.values()) - min(read.values()) <= 1
        # Nothing is doubled without need.
        assert sum(held) == max(len(subscribed), len(read))
        # What is good stays as it is.
        again = {m: spec._replace(target=found[m]) for m, spec in specs.items()}
        assert simple(again, counts) == found
    return found


@given(subscriptions, counts_of_topics, subscriptions, counts_of_topics)
def test_everybody_reads_and_everything_is_read(
    first: dict[str, frozenset[UUID]],
    first_counts: dict[UUID, int],
    then: dict[str, frozenset[UUID]],
    then_counts: dict[UUID, int],
) -> None:
    before = check(first, first_counts, {}) if first else {}
    if then:
        check(then, then_counts, before)


@given(st.integers(1, 9), st.integers(1, 9))
def test_a_further_member_moves_no_more_than_it_gets(members: int, partitions: int) -> None:
    topics = frozenset(TOPICS[:1])
    counts = {TOPICS[0]: partitions}
    before = check({f"m{n}": topics for n in range(members)}, counts, {})
    after = check({f"m{n}": topics for n in range(members + 1)}, counts, before)
    moved = sum(len(places(after[m]) - places(before[m])) for m in before)
    assert moved <= len(places(after[f"m{members}"]))
