"""Rebalances of streams groups are counted as those of other groups."""

from goqueue.broker.groups.rebalance_stats import RebalanceStats
from goqueue.broker.groups.rebalance_watch import WatchedGroupMachine
from goqueue.model.groups.messages import LEAVE_EPOCH
from goqueue.model.groups.rebalances import RebalanceReason
from goqueue.model.groups.tasks import NO_TASKS
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.machine import StateRecord
from tests.unit.state.groups.group_world import table_of
from tests.unit.state.groups.streams.streams_world import COPY, StreamsWorld, words_topics

SESSION_MS = 45_000


class WatchedWorld(StreamsWorld):
    def __init__(self) -> None:
        self.stats = RebalanceStats()
        super().__init__(words_topics(4))

    def _start(self) -> GroupMachine:
        machine = WatchedGroupMachine(
            self.settings,
            self.new_id,
            lambda _group_id: 2**40,
            lambda _viewer, _name: True,
            stats=self.stats,
            clock_ms=lambda: self.now_ms,
        )
        machine.on_topics_changed(self.known)
        for key, value in table_of(self.log).items():
            machine.replay(StateRecord(key, value))
        self.machine = machine
        self.watch.start(machine)
        self.take(machine.loaded(self.now_ms))
        return machine

    @property
    def reasons(self) -> dict[RebalanceReason, int]:
        return self.stats.group("g").by_reason


def test_members_that_come_and_go() -> None:
    world = WatchedWorld()
    one = world.join("a", COPY)
    assert world.reasons == {RebalanceReason.MEMBER_JOINED: 1}
    assert world.stats.group("g").partitions_moved == 4
    assert world.stats.group("g").completed == 1
    world.now_ms += 10
    # Another one comes; the first gives up two of its tasks, and it takes until the second has
    # them.
    two = world.join("b", COPY)
    assert world.stats.is_in_progress("g")
    world.now_ms += 90
    one = world.beat("a", one.member_epoch, owned=one.tasks)
    held = one.tasks
    one = world.beat("a", one.member_epoch, owned=held)
    two = world.beat("b", two.member_epoch, owned=NO_TASKS)
    tally = world.stats.group("g")
    assert not world.stats.is_in_progress("g")
    assert world.reasons == {RebalanceReason.MEMBER_JOINED: 2}
    assert (tally.partitions_moved, tally.completed, tally.last_ms) == (6, 2, 90)
    # It says good-bye.
    world.beat("b", LEAVE_EPOCH)
    one = world.beat("a", one.member_epoch, owned=held)
    assert world.reasons[RebalanceReason.MEMBER_LEFT] == 1
    assert (tally.partitions_moved, tally.completed) == (8, 3)
    # Partitions are added to what it reads.
    world.set_topics(words_topics(6))
    one = world.beat("a", one.member_epoch, owned=one.tasks)
    assert world.reasons[RebalanceReason.TOPICS_CHANGED] == 1
    assert (tally.partitions_moved, tally.completed) == (10, 4)
    # The only one is silent: there is nobody left to settle anything.
    world.advance(SESSION_MS + 1)
    assert not world.stats.is_in_progress("g")
    assert tally.completed == 4


def test_a_member_that_is_silent() -> None:
    world = WatchedWorld()
    held = world.settled(["a", "b"])
    epoch = world.described().group_epoch
    for _ in range(5):
        world.advance(10_000)
        answer = world.beat("a", epoch, owned=held["a"])
        epoch = answer.member_epoch
        held["a"] = held["a"] if answer.tasks is None else answer.tasks
    assert world.reasons[RebalanceReason.MEMBER_EXPIRED] == 1
    assert not world.stats.is_in_progress("g")
    assert sum(map(len, held["a"].values())) == 8
