"""Heartbeats of streams groups: joining, tasks that move, fencing, silence, and other groups."""

import random
from typing import Any

import msgspec
import pytest

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    ConsumerGroupHeartbeat,
    DeleteGroupResult,
    GroupKind,
    JoinGroup,
    JoinGroupResult,
    ListGroups,
    MemberProtocol,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    TxnOffsetCommit,
)
from goqueue.model.groups.streams_messages import StatusCode
from goqueue.model.groups.tasks import NO_TASKS, TaskRole
from goqueue.model.groups.topology import (
    ApplicationTopic,
    CopartitionGroup,
    Endpoint,
    Subtopology,
    Topology,
)
from goqueue.state.groups.settings import GroupOverrides
from goqueue.state.groups.states import KIND_CHANGES, STREAMS_MOVES
from goqueue.state.machine import Ticket
from tests.unit.state.groups.group_world import topics
from tests.unit.state.groups.streams.streams_world import (
    COPY,
    WORDS,
    StreamsWorld,
    shown,
    tasks,
    words_topics,
)

OTHER = Topology(0, (Subtopology("other", source_topics=("in",)),))


def reply(world: StreamsWorld, outcome: Any) -> Any:
    (only,) = world.take(outcome)
    return only.response


def classic_join(world: StreamsWorld) -> JoinGroupResult:
    request = JoinGroup(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(MemberProtocol(name="range", metadata=b""),),
    )
    outcome = world.machine.join(request, ticket=Ticket(1), now_ms=world.now_ms)
    found = reply(world, outcome)
    assert isinstance(found, JoinGroupResult)
    return found


def commit(world: StreamsWorld, **words: Any) -> GroupError:
    offsets = (OffsetToCommit(topic="in", partition=0, offset=5),)
    request = OffsetCommit(group_id="g", offsets=offsets, **words)
    outcome = world.machine.commit_offsets(request, ticket=Ticket(1), now_ms=world.now_ms)
    error: GroupError = reply(world, outcome).partitions[0].error
    return error


def delete(world: StreamsWorld) -> DeleteGroupResult:
    found = reply(world, world.machine.delete_group("g", ticket=Ticket(1)))
    assert isinstance(found, DeleteGroupResult)
    return found


# --- tasks --------------------------------------------------------------------------------


def test_a_first_member_has_all_tasks_at_once() -> None:
    world = StreamsWorld()
    joined = world.join("a")
    assert joined.error is GroupError.NONE
    assert joined.member_epoch == 1
    assert shown(joined.tasks) == "0_0 0_1 1_0 1_1"
    assert joined.status == ()
    # From then on there is nothing to say.
    still = world.beat("a", 1)
    assert (still.member_epoch, still.tasks, still.status) == (1, None, ())


def test_a_task_is_given_up_before_another_member_has_it() -> None:
    world = StreamsWorld()
    world.join("a")
    waiting = world.join("b")
    assert (waiting.member_epoch, waiting.tasks) == (2, NO_TASKS)
    asked = world.beat("a", 1)
    assert asked.member_epoch == 1
    assert shown(asked.tasks) == "0_0 1_0"
    assert world.described().state == "Reconciling"
    # It still has what it must give up, so nobody else gets it.
    assert world.beat("a", 1, owned=tasks("0_0 0_1 1_0 1_1")).member_epoch == 1
    assert world.beat("b", 2).tasks is None
    done = world.beat("a", 1, owned=tasks("0_0 1_0"))
    assert done.member_epoch == 2
    assert shown(world.beat("b", 2).tasks) == "0_1 1_1"
    assert world.described().state == "Stable"


def test_a_standby_is_not_in_the_process_that_still_has_the_task() -> None:
    world = StreamsWorld(streams_num_standby_replicas=1)
    world.join("a")
    joined = world.join("b")
    # What stays with the other process can be followed at once.
    assert shown(joined.tasks) == ""
    assert shown(joined.tasks, TaskRole.STANDBY) == "1_0"
    world.beat("a", 1)
    given = world.beat("a", 1, owned=tasks("0_0 1_0"))
    assert shown(given.tasks, TaskRole.STANDBY) == "1_1"


def test_the_number_of_standbys_can_be_set_for_a_group() -> None:
    world = StreamsWorld()
    assert not any(of for of in world.settled(["a", "b"]).values() if shown(of, TaskRole.STANDBY))
    world.machine.on_group_settings_changed({"g": GroupOverrides(streams_num_standby_replicas=1)})
    held = world.settled(["a", "b"])
    assert {name: shown(each, TaskRole.STANDBY) for name, each in held.items()} == {
        "a": "1_1",
        "b": "1_0",
    }


def test_a_lost_answer_is_told_again() -> None:
    world = StreamsWorld()
    world.join("a")
    world.join("b")
    world.beat("a", 1)
    world.beat("a", 1, owned=tasks("0_0 1_0"))
    # The answer with epoch 2 was lost.
    again = world.beat("a", 1, owned=tasks("0_0 1_0"))
    assert (again.error, again.member_epoch) == (GroupError.NONE, 2)
    assert shown(again.tasks) == "0_0 1_0"
    # Who claims more than it was given is fenced.
    assert world.beat("a", 1, owned=tasks("0_1")).error is GroupError.FENCED_MEMBER_EPOCH
    assert world.beat("a", 9).error is GroupError.FENCED_MEMBER_EPOCH


def test_who_leaves_or_is_silent_loses_its_tasks() -> None:
    world = StreamsWorld(streams_session_timeout_ms=1_000)
    world.settled(["a", "b", "c"])
    left = world.beat("a", -1)
    assert (left.error, left.member_epoch) == (GroupError.NONE, -1)
    world.advance(999)
    epoch = world.described().members[0].member_epoch
    world.beat("b", epoch)
    world.advance(2)
    assert [member.member_id for member in world.described().members] == ["b"]
    assert shown(world.settled(["b"])["b"]) == "0_0 0_1 1_0 1_1"
    assert world.beat("c", epoch).error is GroupError.UNKNOWN_MEMBER_ID


def test_who_does_not_give_up_in_time_is_removed() -> None:
    world = StreamsWorld(streams_session_timeout_ms=1_000_000)
    world.join("a", rebalance_timeout_ms=5_000)
    world.join("b")
    world.beat("a", 1)
    world.advance(4_999)
    assert world.beat("a", 1).error is GroupError.NONE
    world.advance(2)
    assert world.beat("a", 1).error is GroupError.UNKNOWN_MEMBER_ID


def test_everything_is_there_after_a_crash() -> None:
    world = StreamsWorld(streams_num_standby_replicas=1)
    held = world.settled(["a", "b"])
    before = world.described()
    world.crash()
    assert world.described() == before
    for member in before.members:
        owned = held[member.member_id]
        assert world.beat(member.member_id, member.member_epoch, owned=owned).tasks is None


def test_a_giving_up_that_a_crash_interrupts_has_its_time_again() -> None:
    world = StreamsWorld(streams_session_timeout_ms=1_000_000)
    world.join("a", rebalance_timeout_ms=5_000)
    world.join("b")
    world.beat("a", 1)
    world.crash()
    world.advance(5_001)
    assert [member.member_id for member in world.described().members] == ["b"]


# --- topics -------------------------------------------------------------------------------


def test_tasks_wait_for_internal_topics() -> None:
    world = StreamsWorld(topics(**{"in": 2}))
    joined = world.join("a")
    assert joined.error is GroupError.NONE
    assert [status.code for status in joined.status] == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert [topic.name for topic in joined.missing_topics] == ["by-word", "counts"]
    assert joined.tasks == NO_TASKS
    assert world.described().state == "NotReady"
    # Told with every heartbeat, until they are there.
    assert world.beat("a", 1).missing_topics == joined.missing_topics
    world.set_topics(words_topics(2))
    ready = world.beat("a", 1)
    assert (ready.member_epoch, ready.status) == (2, ())
    assert shown(ready.tasks) == "0_0 0_1 1_0 1_1"


def test_a_source_topic_that_goes_takes_all_tasks_away() -> None:
    world = StreamsWorld(topics(**{"in": 2}))
    assert shown(world.join("a", COPY).tasks) == "0_0 0_1"
    world.set_topics(topics())
    told = world.beat("a", 1)
    assert [status.code for status in told.status] == [StatusCode.MISSING_SOURCE_TOPICS]
    assert told.tasks == NO_TASKS
    world.set_topics(topics(**{"in": 3}))
    back = world.beat("a", 1, owned=NO_TASKS)
    assert back.status == ()
    assert shown(back.tasks) == "0_0 0_1 0_2"


def test_new_partitions_are_new_tasks() -> None:
    world = StreamsWorld(topics(**{"in": 1}))
    world.join("a", COPY)
    world.set_topics(topics(**{"in": 3}))
    assert shown(world.beat("a", 1).tasks) == "0_0 0_1 0_2"


def test_topics_of_others_change_nothing() -> None:
    world = StreamsWorld()
    world.join("a")
    world.set_topics(topics(**{"in": 2, "by-word": 2, "counts": 2, "other": 9}))
    assert world.beat("a", 1).member_epoch == 1


# --- topologies ---------------------------------------------------------------------------


def test_members_have_one_topology() -> None:
    world = StreamsWorld()
    world.join("a")
    refused = world.join("b", OTHER)
    assert refused.error is GroupError.INVALID_REQUEST
    assert "stop them all" in refused.error_message
    assert len(world.described().members) == 1


def test_an_application_that_was_stopped_may_have_another_topology() -> None:
    world = StreamsWorld()
    world.join("a")
    world.beat("a", -1)
    assert shown(world.join("b", OTHER).tasks) == "other_0 other_1"
    assert world.described().topics == {"in"}


def test_an_older_topology_is_stale() -> None:
    world = StreamsWorld()
    world.join("a", msgspec.structs.replace(WORDS, epoch=3))
    told = world.join("b", msgspec.structs.replace(OTHER, epoch=2))
    assert told.error is GroupError.NONE
    assert [status.code for status in told.status] == [StatusCode.STALE_TOPOLOGY]


def internal(*names: str, **words: Any) -> tuple[ApplicationTopic, ...]:
    return tuple(ApplicationTopic(name, **words) for name in names)


@pytest.mark.parametrize(
    ("subtopologies", "reason"),
    [
        ((), "no subtopologies"),
        ((Subtopology("", ("in",)),), "has no id"),
        ((Subtopology("0", ("in",)), Subtopology("0", ("b",))), "'0' is given twice"),
        ((Subtopology("0", ("in",)), Subtopology("1", ("in",))), "more than one place"),
        ((Subtopology("0"),), "reads nothing"),
        ((Subtopology("0", ("no good",)),), "has a character"),
        ((Subtopology("0", ("__consumer_offsets",)),), "the broker's own"),
        ((Subtopology("0", ("in",), (), internal("r", partitions=-1)),), "negative number"),
        (
            (Subtopology("0", ("in",), (), (), internal("c", replication_factor=-2)),),
            "replication factor of -2",
        ),
        (
            (Subtopology("0", ("in",), (), (), (), (CopartitionGroup((1,)),)),),
            "names a topic that is not there",
        ),
        (
            (
                Subtopology("0", ("in",), (), (), internal("c")),
                Subtopology("1", ("b",), (), (), internal("c")),
            ),
            "changelog 'c' is given twice",
        ),
    ],
)
def test_topologies_that_cannot_be(subtopologies: tuple[Subtopology, ...], reason: str) -> None:
    answer = StreamsWorld().join("a", Topology(0, subtopologies))
    assert answer.error is GroupError.STREAMS_INVALID_TOPOLOGY
    assert reason in answer.error_message


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"group_id": " "}, "group id"),
        ({"member_id": ""}, "member id"),
        ({"member_id": "m" * 1_001}, "the limit is 1000"),
        ({"rack_id": ""}, "rack id"),
        ({"instance_id": "i"}, "no static members"),
        ({"has_topic_regex": True}, "regular expressions"),
        ({"owns_warmups": True}, "warm-up"),
        ({"member_epoch": -2}, "below -1"),
        ({"member_epoch": 1}, "only when joining"),
        ({"rebalance_timeout_ms": -1}, "rebalance timeout"),
        ({"owned": tasks("0_0")}, "must be empty"),
        ({"process_id": None}, "process id"),
        ({"topology": None}, "topology must be set"),
    ],
)
def test_requests_that_make_no_sense(words: dict[str, Any], reason: str) -> None:
    answer = StreamsWorld().join("a", **words)
    assert answer.error is GroupError.INVALID_REQUEST
    assert reason in answer.error_message


# --- bounds -------------------------------------------------------------------------------


def test_a_group_has_room_for_so_many_members() -> None:
    world = StreamsWorld(streams_max_size=2)
    world.settled(["a", "b"])
    assert world.join("c").error is GroupError.GROUP_MAX_SIZE_REACHED
    assert world.join("a").error is GroupError.NONE


def test_a_topology_and_what_members_say_are_bounded() -> None:
    large = Topology(
        0, (Subtopology("0", ("in",), (), (), internal("c", config=(("k", "v" * 2_000),))),)
    )
    world = StreamsWorld(member_max_bytes=2_000)
    refused = world.join("a", large)
    assert refused.error is GroupError.GROUP_MAX_SIZE_REACHED
    assert "group.member.max.bytes" in refused.error_message
    tagged = world.join("a", tags=(("zone", "z" * 2_000),))
    assert tagged.error is GroupError.GROUP_MAX_SIZE_REACHED
    assert world.join("a").error is GroupError.NONE
    world = StreamsWorld(group_max_bytes=3_000)
    world.join("a", tags=(("zone", "z" * 1_500),))
    refused = world.join("b", tags=(("zone", "z" * 1_500),))
    assert "group.max.bytes" in refused.error_message


# --- what members hear of each other ------------------------------------------------------


def test_endpoints_of_all_members_are_told_when_they_change() -> None:
    world = StreamsWorld()
    world.join("a", process="p", endpoint=Endpoint("here", 1))
    world.join("b", process="p", endpoint=Endpoint("here", 1))
    world.join("c", process="q", endpoint=Endpoint("there", 2))
    epochs = {member.member_id: member.member_epoch for member in world.described().members}
    told = world.beat("a", epochs["a"])
    assert told.endpoints is not None
    # Threads of one process are one.
    assert [each.endpoint.host for each in told.endpoints] == ["here", "there"]
    held = world.settled(["a", "b", "c"])
    epoch = world.described().group_epoch
    last = world.beat("a", epoch, owned=held["a"])
    assert last.endpoints is not None
    reads = [(t, n) for each in last.endpoints for t, ns in each.active.items() for n in ns]
    assert sorted(reads) == [("by-word", 0), ("by-word", 1), ("in", 0), ("in", 1)]
    same = world.beat("a", epoch, endpoint_epoch=last.endpoint_epoch)
    assert same.endpoints is None
    # After a change of coordinators members are told anew.
    world.crash()
    assert world.beat("a", epoch, endpoint_epoch=last.endpoint_epoch).endpoints is not None


@pytest.mark.parametrize("epoch", [1, -1])
def test_a_member_may_end_the_application(epoch: int) -> None:
    world = StreamsWorld()
    world.join("a")
    world.join("b")
    world.beat("a", epoch, shutdown_application=True)
    told = world.beat("b", 2)
    assert [status.code for status in told.status] == [StatusCode.SHUTDOWN_APPLICATION]
    assert "'a'" in told.status[0].detail
    for member in world.described().members:
        world.beat(member.member_id, -1)
    assert world.join("c").status == ()


def test_a_group_is_described() -> None:
    world = StreamsWorld(streams_num_standby_replicas=1)
    world.join("a", rack_id="r1", tags=(("zone", "z1"),), endpoint=Endpoint("here", 1))
    found = world.described()
    assert (found.state, found.group_epoch, found.assignment_epoch) == ("Stable", 1, 1)
    assert found.source_topics == ("in",)
    assert found.subtopologies is not None
    assert [topic.partitions for topic in found.subtopologies[1].changelog_topics] == [2]
    (member,) = found.members
    assert (member.rack_id, member.tags, member.process_id) == (
        "r1",
        (("zone", "z1"),),
        "process-a",
    )
    assert member.tasks == member.target
    assert [str(place) for place in member.held] == ["in-0", "in-1", "by-word-0", "by-word-1"]
    assert world.described("nobody").error is GroupError.GROUP_ID_NOT_FOUND


# --- offsets and other kinds of groups ----------------------------------------------------


def test_members_commit_with_their_epoch() -> None:
    world = StreamsWorld()
    world.join("a")
    assert commit(world, member_id="a", generation_id=1) is GroupError.NONE
    assert commit(world, member_id="a", generation_id=0) is GroupError.STALE_MEMBER_EPOCH
    assert commit(world, member_id="x", generation_id=1) is GroupError.UNKNOWN_MEMBER_ID
    assert commit(world) is GroupError.UNKNOWN_MEMBER_ID
    old = commit(world, member_id="a", generation_id=1, knows_member_epochs=False)
    assert old is GroupError.UNSUPPORTED_VERSION
    world.beat("a", -1)
    assert commit(world) is GroupError.NONE


def test_transactions_commit_with_or_without_a_member() -> None:
    world = StreamsWorld()
    world.join("a")

    def code(**words: Any) -> GroupError:
        request = TxnOffsetCommit(
            group_id="g",
            producer_id=1,
            producer_epoch=0,
            offsets=(OffsetToCommit(topic="in", partition=0, offset=5),),
            **words,
        )
        machine = world.machine
        outcome = machine.commit_offsets_in_transaction(
            request, ticket=Ticket(1), now_ms=world.now_ms
        )
        error: GroupError = reply(world, outcome).partitions[0].error
        return error

    assert code(member_id="a", generation_id=1) is GroupError.NONE
    assert code() is GroupError.NONE
    assert code(member_id="a", generation_id=7) is GroupError.ILLEGAL_GENERATION
    assert code(member_id="x", generation_id=1) is GroupError.UNKNOWN_MEMBER_ID


def test_members_fetch_offsets_with_their_epoch() -> None:
    world = StreamsWorld()
    world.join("a")

    def code(**words: Any) -> GroupError:
        request = OffsetFetch(group_id="g", **words)
        error: GroupError = reply(
            world, world.machine.fetch_offsets(request, ticket=Ticket(1))
        ).error
        return error

    assert code() is GroupError.NONE
    assert code(member_id="a", member_epoch=1) is GroupError.NONE
    assert code(member_id="a", member_epoch=2) is GroupError.STALE_MEMBER_EPOCH
    assert code(member_id="x", member_epoch=1) is GroupError.UNKNOWN_MEMBER_ID


def test_offsets_of_what_the_group_reads_stay() -> None:
    world = StreamsWorld(offsets_retention_ms=1_000, offsets_retention_check_ms=500)
    world.join("a")
    assert commit(world, member_id="a", generation_id=1) is GroupError.NONE
    world.advance(5_000)
    look = world.machine.look("g")
    assert look is not None
    assert set(look.committed) == {"in"}
    world.beat("a", -1)
    world.advance(5_000)
    # Nobody is left, and nothing: the group goes too.
    assert world.machine.look("g") is None


def test_groups_are_listed_and_deleted_once_they_are_empty() -> None:
    world = StreamsWorld()
    world.join("a")
    (listed,) = reply(
        world,
        world.machine.list_groups(ListGroups(kinds=frozenset({"streams"})), ticket=Ticket(1)),
    )
    assert (listed.kind, listed.protocol_type, listed.state) == (
        GroupKind.STREAMS,
        "streams",
        "Stable",
    )
    assert delete(world).error is GroupError.NON_EMPTY_GROUP
    world.beat("a", -1)
    assert delete(world).error is GroupError.NONE
    assert world.described().error is GroupError.GROUP_ID_NOT_FOUND
    assert world.join("a").member_epoch == 1


def test_members_of_other_protocols_stay_out() -> None:
    world = StreamsWorld()
    world.join("a")
    assert classic_join(world).error is GroupError.INCONSISTENT_GROUP_PROTOCOL
    beat = ConsumerGroupHeartbeat(
        group_id="g",
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topics=("in",),
        owned={},
    )
    outcome = world.machine.consumer_heartbeat(beat, ticket=Ticket(1), now_ms=world.now_ms)
    assert reply(world, outcome).error is GroupError.GROUP_ID_NOT_FOUND
    described = reply(world, world.machine.describe_group("g", ticket=Ticket(1)))
    assert described.error is GroupError.GROUP_ID_NOT_FOUND


def test_an_application_may_change_from_the_classic_protocol_and_back() -> None:
    world = StreamsWorld()
    # Offsets of a stopped application make an empty classic group.
    assert commit(world) is GroupError.NONE
    assert world.join("a").error is GroupError.NONE
    look = world.machine.look("g")
    assert look is not None
    assert look.kind is GroupKind.STREAMS
    assert look.committed["in"][0].offset == 5
    world.beat("a", -1)
    assert classic_join(world).error is GroupError.MEMBER_ID_REQUIRED
    look = world.machine.look("g")
    assert look is not None
    assert look.kind is GroupKind.CLASSIC
    assert world.join("a").error is GroupError.NONE
    changes = {(a, b) for a, after in KIND_CHANGES.items() for b in after}
    expected = {change for change in changes if GroupKind.STREAMS in change}
    assert {move for move in world.watch.seen if isinstance(move[0], GroupKind)} == expected


def stroll(seed: int) -> StreamsWorld:
    """Members come, go, fall silent and do as they are told, or not; topics come and go."""
    dice = random.Random(seed)
    world = StreamsWorld(streams_session_timeout_ms=1_000)
    for _ in range(60):
        members = world.described().members
        deed = dice.randrange(6)
        if deed == 0 or not members:
            world.join(dice.choice("abc"))
        elif deed == 1:
            world.beat(dice.choice(members).member_id, -1)
        elif deed == 2:
            world.advance(dice.choice([100, 600, 1_100]))
        elif deed == 3:
            world.set_topics(words_topics(2) if dice.random() < 0.7 else topics())
        else:
            for member in members:
                owned = member.tasks if deed == 4 else None
                world.beat(member.member_id, member.member_epoch, owned=owned)
    return world


def test_every_move_is_in_the_table_and_happens() -> None:
    seen = {move for seed in range(60) for move in stroll(seed).watch.seen}
    assert seen == {(before, after) for before in STREAMS_MOVES for after in STREAMS_MOVES[before]}
