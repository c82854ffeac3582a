"""The tables of states say all that groups do, and nothing that they do not."""

import random
from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from goqueue.model.groups.messages import GroupKind
from goqueue.model.groups.share_messages import ShareGroupHeartbeat
from goqueue.state.groups import consumer
from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.current_assignment import CurrentAssignment
from goqueue.state.groups.reconciliation import reconcile
from goqueue.state.groups.states import (
    CLASSIC_MOVES,
    CONSUMER_MOVES,
    KIND_CHANGES,
    MEMBER_MOVES,
    SHARE_MOVES,
    STREAMS_MOVES,
    ClassicState,
)
from goqueue.state.machine import Ticket
from tests.unit.state.groups.group_clients import TOPICS
from tests.unit.state.groups.group_moves import Move
from tests.unit.state.groups.group_scene import Scene
from tests.unit.state.groups.group_world import GroupWorld, topics

# Enough for every move to come up many times.
WORLDS = 200
STEPS = 60
CLIENTS_MAX = 5


def moves_in(*tables: Mapping[Any, Mapping[Any, str]]) -> set[Move]:
    return {(before, after) for table in tables for before in table for after in table[before]}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> set[Move]:
    """What classic groups and members of consumer groups do one by one."""
    seen: set[Move] = set()
    transition = ClassicGroup.transition

    def noting(group: ClassicGroup, state: ClassicState, now_ms: int) -> None:
        before: Enum = group.state
        transition(group, state, now_ms)
        seen.add((before, state))

    def reconciling(current: CurrentAssignment[Any], **words: Any) -> CurrentAssignment[Any]:
        following = reconcile(current, **words)
        seen.add((current.state, following.state))
        return following

    monkeypatch.setattr(ClassicGroup, "transition", noting)
    monkeypatch.setattr(consumer, "reconcile", reconciling)
    return seen


def act(scene: Scene, dice: random.Random) -> None:
    number = dice.randrange(CLIENTS_MAX)
    deed = dice.randrange(10)
    if deed == 0 and len(scene.clients) < CLIENTS_MAX:
        scene.arrive(classic=dice.random() < 0.5)
    elif deed in (1, 2):
        scene.act(number, lose_reply=dice.random() < 0.3)
    elif deed == 3:
        for _ in range(dice.randrange(1, 6)):
            scene.everybody_acts()
            scene.coordinator.advance(500)
    elif deed == 4:
        scene.reconcile(number)
    elif deed == 5:
        scene.resubscribe(number, dice.choice([("a",), ("b",), TOPICS]))
    elif deed == 6:
        scene.go_silent(number)
    elif deed == 7:
        scene.leave(number)
    elif deed == 8:
        scene.coordinator.advance(dice.choice([1, 60, 1_000, 6_000, 16_000, 46_000]))
    elif deed == 9:
        counts = {"a": dice.randrange(5), "b": dice.randrange(4)}
        scene.change_topics(**{name: count for name, count in counts.items() if count})


def test_every_move_of_groups_and_members_is_in_the_tables_and_happens(steps: set[Move]) -> None:
    seen: set[Move] = set()
    for seed in range(WORLDS):
        dice = random.Random(seed)
        scene = Scene(cooperative=dice.random() < 0.5)
        for _ in range(STEPS):
            act(scene, dice)
        seen |= scene.world.watch.seen
    assert seen == {
        move for move in moves_in(CONSUMER_MOVES, KIND_CHANGES) if GroupKind.STREAMS not in move
    }
    assert steps == moves_in(CLASSIC_MOVES, MEMBER_MOVES)


def test_every_move_of_share_groups_is_in_the_table_and_happens() -> None:
    world = GroupWorld(known=topics(a=2))
    for epoch in (0, -1):
        request = ShareGroupHeartbeat(
            group_id="g", member_id="ada", member_epoch=epoch, subscribed_topics=("a",)
        )
        world.take(
            world.machine.share_heartbeat(request, ticket=Ticket(epoch), now_ms=world.now_ms)
        )
    # The group itself came with its first member.
    request = ShareGroupHeartbeat(
        group_id="g", member_id="bob", member_epoch=0, subscribed_topics=("a",)
    )
    world.take(world.machine.share_heartbeat(request, ticket=Ticket(1), now_ms=world.now_ms))
    assert world.watch.seen == moves_in(SHARE_MOVES)


def test_a_move_outside_the_table_is_a_bug() -> None:
    group = ClassicGroup("g")
    with pytest.raises(AssertionError, match="EMPTY"):
        group.transition(ClassicState.STABLE, 0)


@pytest.mark.parametrize(
    "table",
    [CLASSIC_MOVES, CONSUMER_MOVES, MEMBER_MOVES, SHARE_MOVES, STREAMS_MOVES, KIND_CHANGES],
)
def test_tables_name_every_state_and_say_what_moves_it(table: Mapping[Any, Any]) -> None:
    (kind,) = {type(state) for state in table}
    assert list(table) == list(kind.__members__.values())
    assert all(words for after in table.values() for words in after.values())
