"""Children of a split are withheld from a group until it has committed their parents."""

from typing import Any

import pytest

from goqueue.model.groups.consumer_protocol import (
    read_assignment,
    without_partitions,
    write_assignment,
)
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.layouts import Split
from goqueue.state.groups.gates import SEEDED, SEEDS_MAX
from goqueue.state.groups.settings import GroupSettings
from goqueue.state.groups.topics import TopicInfo, Topics
from tests.unit.state.groups.group_clients import (
    ClassicClient,
    Client,
    ConsumerClient,
    Coordinator,
    Place,
)
from tests.unit.state.groups.group_world import GroupWorld, topic_id

ROUND_MS = 1_000
WHOLE = Topics([TopicInfo("a", topic_id("a"), 2)])


def split(**ends: int) -> Topics:
    """Into four partitions; `p0=7` is the end of parent 0."""
    told = {int(name[1:]): end for name, end in ends.items()}
    made = Split(epoch=1, parents=2, partitions=4, ends=told)
    return Topics([TopicInfo("a", topic_id("a"), 4, splits=(made,))])


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator()
    settings = GroupSettings(initial_rebalance_delay_ms=50, uncommitted_gate_ms=60_000)
    made.world = GroupWorld(settings, WHOLE)
    return made


@pytest.fixture(params=["consumer", "range", "roundrobin", "sticky", "cooperative-sticky"])
def client(coordinator: Coordinator, request: pytest.FixtureRequest) -> Client:
    made: Client
    if request.param == "consumer":
        made = ConsumerClient(coordinator, "m", wants=("a",))
    else:
        cooperative = request.param == "cooperative-sticky"
        made = ClassicClient(coordinator, "m", cooperative=cooperative, strategy=request.param)
    coordinator.clients.append(made)
    run(coordinator)
    return made


def run(coordinator: Coordinator, rounds: int = 8) -> None:
    for _ in range(rounds):
        for each in coordinator.clients:
            if isinstance(each, ConsumerClient):
                each.reconcile()
            each.act(lose_reply=False)
        coordinator.advance(ROUND_MS)


def commit(coordinator: Coordinator, client: Client | None, **offsets: int) -> None:
    """`p0=7` commits 7 in partition 0."""
    commit_in("g", coordinator, client, offsets)


def commit_in(
    group: str, coordinator: Coordinator, client: Client | None, offsets: dict[str, int]
) -> None:
    request = OffsetCommit(
        group_id=group,
        offsets=tuple(
            OffsetToCommit(topic="a", partition=int(name[1:]), offset=offset)
            for name, offset in offsets.items()
        ),
        generation_id=-1 if client is None else client.generation,
        member_id="" if client is None else client.member_id,
    )
    answer: Any = coordinator.tell(
        lambda machine, ticket, now_ms: machine.commit_offsets(
            request, ticket=ticket, now_ms=now_ms
        )
    )
    assert {each.error.name for each in answer.partitions} == {"NONE"}


def owned(client: Client) -> set[int]:
    return {partition for _, partition in client.owned}


def committed(coordinator: Coordinator) -> dict[int, int]:
    coordinator.advance(0)
    return committed_by(coordinator, "g")


def committed_by(coordinator: Coordinator, group: str) -> dict[int, int]:
    table = coordinator.world.machine._table.by_group.get(group, {}).get("a", {})
    return {partition: found.offset for partition, found in table.items()}


def test_children_come_when_their_parents_are_committed(
    coordinator: Coordinator, client: Client
) -> None:
    assert owned(client) == {0, 1}
    commit(coordinator, client, p0=5, p1=5)
    coordinator.world.set_topics(split())
    run(coordinator)
    assert owned(client) == {0, 1}, "the split drains"
    coordinator.world.set_topics(split(p0=7, p1=9))
    run(coordinator)
    assert owned(client) == {0, 1}
    commit(coordinator, client, p0=7, p1=8)
    run(coordinator)
    assert owned(client) == {0, 1, 2}
    commit(coordinator, client, p1=12)
    run(coordinator)
    assert owned(client) == {0, 1, 2, 3}


def test_who_is_through_gets_children_when_the_ends_are_known(
    coordinator: Coordinator, client: Client
) -> None:
    commit(coordinator, client, p0=7, p1=9)
    coordinator.world.set_topics(split())
    run(coordinator)
    coordinator.world.set_topics(split(p0=7, p1=9))
    run(coordinator)
    assert owned(client) == {0, 1, 2, 3}


def test_children_are_read_from_their_first_message(
    coordinator: Coordinator, client: Client
) -> None:
    commit(coordinator, client, p0=5)
    coordinator.world.set_topics(split())
    # Partition 3 as well: its parent is read just now, though nothing is committed there yet.
    assert committed(coordinator) == {0: 5, 2: 0, 3: 0}
    commit(coordinator, client, p2=4)
    coordinator.world.set_topics(split(p0=1, p1=1))
    coordinator.crash()
    assert committed(coordinator) == {0: 5, 2: 4, 3: 0}


def test_what_was_handed_out_stays(coordinator: Coordinator, client: Client) -> None:
    commit(coordinator, client, p0=7, p1=9)
    coordinator.world.set_topics(split(p0=7, p1=9))
    run(coordinator)
    commit(coordinator, client, p0=0)
    run(coordinator)
    assert owned(client) == {0, 1, 2, 3}


def test_a_new_coordinator_goes_on(coordinator: Coordinator, client: Client) -> None:
    commit(coordinator, client, p0=5, p1=9)
    coordinator.world.set_topics(split(p0=7, p1=9))
    run(coordinator)
    assert owned(client) == {0, 1, 3}
    coordinator.crash()
    run(coordinator)
    assert owned(client) == {0, 1, 3}
    commit(coordinator, client, p0=7)
    coordinator.crash()
    run(coordinator)
    assert owned(client) == {0, 1, 2, 3}


def test_who_commits_nothing_does_not_wait_for_ever(
    coordinator: Coordinator, client: Client
) -> None:
    coordinator.world.set_topics(split(p0=7, p1=9))
    run(coordinator, 30)
    assert owned(client) == {0, 1}
    commit(coordinator, client, p1=1)
    run(coordinator, 90)
    assert owned(client) == {0, 1, 2}, "it commits in 1, and is not through with it"


def test_a_group_that_comes_later_reads_parents_first(coordinator: Coordinator) -> None:
    coordinator.world.set_topics(split(p0=7, p1=0))
    client = ConsumerClient(coordinator, "m", wants=("a",))
    coordinator.clients.append(client)
    run(coordinator)
    # There was nothing in 1 when it was split.
    assert owned(client) == {0, 1, 3}
    commit(coordinator, client, p0=8)
    run(coordinator)
    assert owned(client) == {0, 1, 2, 3}


def test_offsets_without_members_count(coordinator: Coordinator) -> None:
    commit(coordinator, None, p0=7, p1=3)
    coordinator.world.set_topics(split(p0=7, p1=9))
    assert committed(coordinator) == {0: 7, 1: 3, 2: 0, 3: 0}
    client = ConsumerClient(coordinator, "m", wants=("a",))
    coordinator.clients.append(client)
    run(coordinator)
    assert owned(client) == {0, 1, 2}


def test_members_whose_partitions_stay_are_not_disturbed(coordinator: Coordinator) -> None:
    """KIP-848: nobody gives anything up for what is new."""
    clients = [ConsumerClient(coordinator, name, wants=("a",)) for name in ("m", "n")]
    coordinator.clients.extend(clients)
    run(coordinator)
    before: dict[str, set[Place]] = {each.name: set(each.owned) for each in clients}
    assert {len(places) for places in before.values()} == {1}
    for each in clients:
        commit(coordinator, each, **{f"p{number}": 9 for number in owned(each)})
    coordinator.world.set_topics(split())
    coordinator.world.set_topics(split(p0=9, p1=9))
    for _ in range(8):
        run(coordinator, 1)
        assert all(before[each.name] <= each.owned for each in clients)
    assert sorted(len(each.owned) for each in clients) == [2, 2]


def test_what_a_leader_says_besides_stays_as_it_is() -> None:
    data = write_assignment(2, {"a": [0, 1, 3], "b": [5]})[:-4] + b"\0\0\0\3xyz"
    kept = without_partitions(data, lambda topic, number: (topic, number) != ("a", 0))
    assert read_assignment(kept).partitions == {"a": (0,)}
    assert read_assignment(kept).user_data == b"xyz"
    assert kept[:2] == data[:2]
    assert without_partitions(b"", lambda *_: True) == b""
    assert without_partitions(b"\0", lambda *_: True) == b"\0"
    assert without_partitions(data, lambda *_: False) is data


def test_a_leader_that_hears_of_a_split_first_waits_for_the_coordinator(
    coordinator: Coordinator,
) -> None:
    client = ClassicClient(coordinator, "m", strategy="range")
    coordinator.clients.append(client)
    run(coordinator)
    commit(coordinator, client, p0=7, p1=9)
    known, coordinator.world.known = coordinator.world.known, split()
    run(coordinator)
    assert owned(client) == {0, 1}, "the coordinator knows of two partitions"
    assert coordinator.world.machine._registry.topics is known
    coordinator.world.set_topics(split())
    run(coordinator)
    assert owned(client) == {0, 1}
    coordinator.world.set_topics(split(p0=7, p1=9))
    run(coordinator)
    assert owned(client) == {0, 1, 2, 3}


# --- groups that come, go and begin anew --------------------------------------------------


def split_twice() -> Topics:
    """From 2 to 4 to 8: 2 is split off 0, and 6 off 2."""
    splits = (
        Split(epoch=1, parents=2, partitions=4, ends={0: 7, 1: 0}),
        Split(epoch=2, parents=4, partitions=8, ends={0: 9, 1: 0, 2: 5, 3: 0}),
    )
    return Topics([TopicInfo("a", topic_id("a"), 8, splits=splits)])


def test_who_waits_for_a_parent_does_not_wait_for_its_commits(
    coordinator: Coordinator, client: Client
) -> None:
    """However long the group takes for 0: it gets 2, and 6 only when it is through with 2."""
    commit(coordinator, client, p0=1, p1=1)
    coordinator.world.set_topics(split_twice())
    run(coordinator, 150)
    assert owned(client) == {0, 1, 3, 5, 7}
    commit(coordinator, client, p0=12)
    run(coordinator)
    assert owned(client) == {0, 1, 2, 3, 4, 5, 7}
    commit(coordinator, client, p2=5)
    run(coordinator)
    assert owned(client) == set(range(8))


def test_a_group_that_comes_while_a_split_drains_reads_children_from_the_start(
    coordinator: Coordinator,
) -> None:
    coordinator.world.set_topics(split())
    client = ConsumerClient(coordinator, "m", wants=("a",))
    coordinator.clients.append(client)
    run(coordinator)
    assert committed(coordinator) == {}
    coordinator.world.set_topics(split(p0=7, p1=9))
    assert committed(coordinator) == {2: 0, 3: 0}


def test_a_group_that_comes_later_and_reads_a_parent_reads_its_children_from_the_start(
    coordinator: Coordinator,
) -> None:
    coordinator.world.set_topics(split_twice())
    commit(coordinator, None, p0=6)
    assert committed(coordinator) == {0: 6, 2: 0, 4: 0, 6: 0}


def test_a_group_that_begins_behind_the_end_begins_in_children_where_it_wants(
    coordinator: Coordinator,
) -> None:
    coordinator.world.set_topics(split_twice())
    commit(coordinator, None, p0=8)
    assert committed(coordinator) == {0: 8, 4: 0}, "4 was split off when 0 ended with 9"
    commit(coordinator, None, p0=10)
    assert committed(coordinator) == {0: 10, 4: 0}


def test_what_is_committed_together_with_a_parent_counts(coordinator: Coordinator) -> None:
    coordinator.world.set_topics(split(p0=7, p1=9))
    commit(coordinator, None, p2=3, p0=6)
    assert committed(coordinator) == {0: 6, 2: 3}


def test_a_note_that_is_given_back_with_an_offset_is_a_commit(coordinator: Coordinator) -> None:
    """Some programs commit the text that they found with the offset before."""
    coordinator.world.set_topics(split_twice())
    request = OffsetCommit(
        group_id="g",
        offsets=(
            OffsetToCommit(topic="a", partition=0, offset=9),
            OffsetToCommit(topic="a", partition=2, offset=5, metadata=SEEDED),
        ),
    )
    coordinator.tell(
        lambda m, ticket, now_ms: m.commit_offsets(request, ticket=ticket, now_ms=now_ms)
    )
    client = ConsumerClient(coordinator, "m", wants=("a",))
    coordinator.clients.append(client)
    run(coordinator)
    assert owned(client) == set(range(8))


def test_a_group_of_the_same_name_waits_anew(coordinator: Coordinator) -> None:
    coordinator.world.set_topics(split(p0=7, p1=9))
    first = ConsumerClient(coordinator, "m", wants=("a",))
    coordinator.clients.append(first)
    run(coordinator, 90)
    assert owned(first) == {0, 1, 2, 3}, "it commits nothing"
    first.leave()
    coordinator.clients.clear()
    coordinator.tell(lambda m, ticket, _: m.delete_group("g", ticket=ticket))
    second = ConsumerClient(coordinator, "n", wants=("a",))
    coordinator.clients.append(second)
    run(coordinator)
    assert owned(second) == {0, 1}


def test_a_topic_of_the_same_name_is_another(coordinator: Coordinator, client: Client) -> None:
    commit(coordinator, client, p0=5, p1=5)
    coordinator.world.set_topics(split(p0=7, p1=9))
    coordinator.world.set_topics(Topics([]))
    assert committed(coordinator) == {}
    coordinator.world.set_topics(Topics([TopicInfo("a", topic_id("again"), 4)]))
    run(coordinator)
    assert owned(client) == {0, 1, 2, 3}


def test_a_lower_end_opens_what_waited_for_messages_that_are_gone(
    coordinator: Coordinator, client: Client
) -> None:
    commit(coordinator, client, p0=5, p1=9)
    coordinator.world.set_topics(split(p0=7, p1=9))
    run(coordinator)
    assert owned(client) == {0, 1, 3}
    coordinator.world.set_topics(split(p0=5, p1=9))
    run(coordinator)
    assert owned(client) == {0, 1, 2, 3}


def test_offsets_for_many_groups_are_given_in_slices(coordinator: Coordinator) -> None:
    """And a group whose turn has not come gets no children."""
    known = Topics([TopicInfo("a", topic_id("a"), 4)])
    coordinator.world.set_topics(known)
    commit(coordinator, None, p0=7)
    machine = coordinator.world.machine
    for number in range(SEEDS_MAX):
        commit_in(f"g-{number:03}", coordinator, None, {"p0": 7})
    made = Split(epoch=1, parents=4, partitions=12, ends={0: 7, 1: 0, 2: 0, 3: 0})
    topic = TopicInfo("a", topic_id("a"), 12, splits=(made,))
    coordinator.world.set_topics(Topics([topic]))
    gates, last = machine._gates, f"g-{SEEDS_MAX - 1:03}"
    now_ms = coordinator.world.now_ms
    coordinator.world.take(machine.on_deadline(now_ms))
    assert committed_by(coordinator, "g") == {0: 7, 4: 0, 8: 0}
    assert committed_by(coordinator, last) == {0: 7}
    assert gates.withheld("g", topic) == set()
    assert gates.withheld(last, topic) == set(range(4, 12))
    coordinator.advance(0)
    assert committed_by(coordinator, last) == {0: 7, 4: 0, 8: 0}
    assert gates.withheld(last, topic) == set()
