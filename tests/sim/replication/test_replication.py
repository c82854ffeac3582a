"""The replication machines under everything that can fail, and with faults built into them."""

import pytest

from tests.sim.replication.checker import Violation
from tests.sim.replication.mutants import CAUGHT_BY, MUTANTS
from tests.sim.replication.world import Shape, World

CHUNKS = 8
SEEDS_A_CHUNK = 1_000


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_committed_is_lost(chunk: int) -> None:
    for seed in range(chunk * SEEDS_A_CHUNK, (chunk + 1) * SEEDS_A_CHUNK):
        try:
            World(seed).run()
        except Violation as violation:
            pytest.fail(f"seed {seed}: {violation}")


def test_partitions_fail_apart_from_each_other() -> None:
    for seed in range(500):
        World(seed, Shape(partitions=3)).run()


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_a_fault_in_the_machines_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (mutation,) = (mutation for mutation in MUTANTS if mutation.__name__ == name)
    mutation(monkeypatch)
    for seed in CAUGHT_BY[name]:
        with pytest.raises(Violation):
            World(seed).run()


def test_the_seeds_that_find_faults_are_clean_without_them() -> None:
    for seed in sorted({seed for seeds in CAUGHT_BY.values() for seed in seeds}):
        World(seed).run()
