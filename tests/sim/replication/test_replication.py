"""The replication machines under everything that can fail, and with faults built into them."""

import pytest

from tests.sim.replication.__main__ import failures
from tests.sim.replication.checker import Violation
from tests.sim.replication.move_mutants import MOVE_MUTANTS
from tests.sim.replication.mutants import CAUGHT_BY, MUTANTS, Mutation
from tests.sim.replication.world import Shape, World

# Thirty times as many seeds as the slowest to find of the faults below takes; `make sim` runs more.
CHUNKS = 30
SEEDS_A_CHUNK = 1_000
# A few milliseconds each.
SEARCHED_SEEDS = 3_000
MOVING = Shape(spares=1)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_committed_is_lost(chunk: int) -> None:
    start = chunk * SEEDS_A_CHUNK
    _, committed, failed = failures(range(start, start + SEEDS_A_CHUNK))
    assert not failed
    assert committed > SEEDS_A_CHUNK


def test_partitions_fail_apart_from_each_other() -> None:
    for seed in range(300):
        World(seed, Shape(partitions=3)).run()


@pytest.mark.parametrize("chunk", range(4))
def test_partitions_that_move_lose_nothing(chunk: int) -> None:
    committed = 0
    for seed in range(chunk * 500, chunk * 500 + 500):
        world = World(seed, MOVING)
        world.run()
        committed += len(world.checkers[0].committed)
    assert committed > 500


@pytest.mark.parametrize("mutation", MOVE_MUTANTS, ids=lambda mutation: mutation.__name__)
def test_a_fault_in_moves_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    for seed in range(SEARCHED_SEEDS):
        try:
            World(seed, MOVING).run()
        except Violation:
            return
    pytest.fail(f"not found in {SEARCHED_SEEDS} worlds")


@pytest.mark.parametrize("mutation", MUTANTS, ids=lambda mutation: mutation.__name__)
def test_a_fault_in_the_machines_is_found(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seeds that found it last come first; a change of the machines makes other worlds."""
    mutation(monkeypatch)
    for seed in (*CAUGHT_BY[mutation.__name__], *range(SEARCHED_SEEDS)):
        try:
            World(seed).run()
        except Violation:
            return
    pytest.fail(f"not found in {SEARCHED_SEEDS} worlds")


def test_the_seeds_that_find_faults_are_clean_without_them() -> None:
    for seed in sorted({seed for seeds in CAUGHT_BY.values() for seed in seeds}):
        World(seed).run()
