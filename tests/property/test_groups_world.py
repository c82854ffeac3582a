"""Clients of both protocols share a group while replies get lost, time passes, topics change and
the coordinator crashes: no partition ever has two owners, and in the end every one is read."""

import sys
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.unit.state.groups.group_clients import TOPICS
from tests.unit.state.groups.group_scene import Scene

CLIENTS_MAX = 5

Numbers = st.integers(0, CLIENTS_MAX - 1)


class GroupsInAWorld(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(cooperative=False)

    @initialize(cooperative=st.booleans())
    def start(self, cooperative: bool) -> None:
        self.scene = Scene(cooperative=cooperative)

    @precondition(lambda self: len(self.scene.clients) < CLIENTS_MAX)
    @rule(classic=st.booleans())
    def arrive(self, classic: bool) -> None:
        self.scene.arrive(classic=classic)

    @rule(number=Numbers, lose_reply=st.booleans())
    def act(self, number: int, lose_reply: bool) -> None:
        self.scene.act(number, lose_reply=lose_reply)

    @rule(rounds=st.integers(1, 6))
    def all_act(self, rounds: int) -> None:
        for _ in range(rounds):
            self.scene.everybody_acts()
            self.scene.coordinator.advance(500)

    @rule(number=Numbers)
    def reconcile(self, number: int) -> None:
        self.scene.reconcile(number)

    @rule(number=Numbers, wants=st.sampled_from([("a",), ("b",), TOPICS]))
    def resubscribe(self, number: int, wants: tuple[str, ...]) -> None:
        self.scene.resubscribe(number, wants)

    @rule(number=Numbers)
    def go_silent(self, number: int) -> None:
        self.scene.go_silent(number)

    @rule(number=Numbers)
    def leave(self, number: int) -> None:
        self.scene.leave(number)

    @rule(by_ms=st.sampled_from([1, 60, 1_000, 6_000, 16_000, 46_000]))
    def pass_time(self, by_ms: int) -> None:
        self.scene.coordinator.advance(by_ms)

    @rule(a=st.integers(0, 4), b=st.integers(0, 3))
    def change_topics(self, a: int, b: int) -> None:
        counts = {name: count for name, count in (("a", a), ("b", b)) if count}
        self.scene.change_topics(**counts)

    @rule()
    def crash(self) -> None:
        self.scene.coordinator.crash()

    @rule()
    def crash_before_the_next_append(self) -> None:
        self.scene.coordinator.dies_before_append = True

    @rule(number=Numbers, offset=st.integers(0, 1_000))
    def commit(self, number: int, offset: int) -> None:
        self.scene.commit(number, offset)

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        self.scene.check_owners()

    @invariant()
    def the_log_tells_the_durable_state(self) -> None:
        self.scene.check_log()

    @invariant()
    def offsets_are_those_last_committed(self) -> None:
        self.scene.check_offsets()

    def teardown(self) -> None:
        self.scene.settle()


TestGroupsInAWorld = GroupsInAWorld.TestCase
TestGroupsInAWorld.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
