"""One story per seed, told again with a crash at every step, before and after the append."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.unit.state.groups.group_clients import TOPICS
from tests.unit.state.groups.group_scene import Scene

STEPS = 24
CLIENTS = 4

Step = Callable[[Scene], None]


def story(seed: int) -> tuple[bool, list[Step]]:
    """A beginning with members of both protocols, then whatever the seed brings."""
    chance = random.Random(seed)
    cooperative = chance.random() < 0.5
    kinds = [chance.random() < 0.5 for _ in range(CLIENTS)]
    steps: list[Step] = [lambda scene, kind=kind: scene.arrive(classic=kind) for kind in kinds]  # type: ignore[misc]
    steps += [_step(chance) for _ in range(STEPS)]
    return cooperative, steps


def _step(chance: random.Random) -> Step:
    number, pause_ms = chance.randrange(CLIENTS), chance.choice([60, 3_000, 16_000])
    wants = chance.choice([("a",), ("b",), TOPICS])
    partitions, lose_reply = chance.randrange(1, 5), chance.random() < 0.2
    steps: list[Step] = [
        lambda scene: scene.act(number, lose_reply=lose_reply),
        lambda scene: scene.everybody_acts(),
        lambda scene: scene.everybody_acts(),
        lambda scene: scene.reconcile(number),
        lambda scene: scene.coordinator.advance(pause_ms),
        lambda scene: scene.resubscribe(number, wants),
        lambda scene: scene.change_topics(a=partitions, b=2),
        lambda scene: scene.leave(number),
        lambda scene: scene.commit(number, pause_ms),
    ]
    return chance.choice(steps)


def tell(seed: int, *, crash_at: int | None, before_append: bool) -> None:
    cooperative, steps = story(seed)
    scene = Scene(cooperative=cooperative)
    for number, step in enumerate(steps):
        if number == crash_at and before_append:
            scene.coordinator.dies_before_append = True
        step(scene)
        if number == crash_at and not before_append:
            scene.coordinator.crash()
        scene.check_owners()
        scene.check_log()
        scene.check_offsets()
    scene.settle()
    scene.check_log()


@pytest.mark.parametrize("seed", range(5))
def test_a_crash_at_any_step_does_no_harm(seed: int) -> None:
    tell(seed, crash_at=None, before_append=False)
    for crash_at in range(CLIENTS, CLIENTS + STEPS):
        tell(seed, crash_at=crash_at, before_append=False)
        tell(seed, crash_at=crash_at, before_append=True)
