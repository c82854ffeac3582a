"""Run many seeds, or search for seeds that find the faults in `mutants.py`.

python -m tests.sim.replication --seeds 1000000 --processes 2
python -m tests.sim.replication --mutants --seeds 60000
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator

import pytest

from tests.sim.replication.checker import Violation
from tests.sim.replication.mutants import MUTANTS, Mutation
from tests.sim.replication.world import World

CHUNK = 1_000
SEEDS_ENOUGH = 3


def failures(seeds: range) -> tuple[int, int, list[tuple[int, str]]]:
    """How many seeds ran, how many records they committed, and which failed."""
    committed = 0
    failed: list[tuple[int, str]] = []
    for seed in seeds:
        world = World(seed)
        try:
            world.run()
        except Violation as violation:
            failed.append((seed, str(violation)))
        committed += sum(len(checker.committed) for checker in world.checkers)
    return len(seeds), committed, failed


def run(first: int, count: int, processes: int) -> int:
    chunks = [range(start, min(start + CHUNK, first + count)) for start in _starts(first, count)]
    started = time.monotonic()
    done = committed = 0
    failed: list[tuple[int, str]] = []
    with multiprocessing.Pool(processes) as pool:
        for ran, more, found in pool.imap_unordered(failures, chunks):
            done, committed = done + ran, committed + more
            failed += found
            for seed, violation in found:
                print(f"\nseed {seed}: {violation}")
            print(f"\r{done:,} of {count:,} seeds, {len(failed)} failed", end="", flush=True)
    elapsed_s = time.monotonic() - started
    print(f"\n{committed:,} records committed, {elapsed_s:.0f} s")
    return 1 if failed else 0


def _starts(first: int, count: int) -> Iterator[int]:
    return iter(range(first, first + count, CHUNK))


def search(mutation: Mutation, count: int) -> list[int]:
    """Seeds in which the world finds the fault."""
    found: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        for seed in range(count):
            try:
                World(seed).run()
            except Violation:
                found.append(seed)
                if len(found) == SEEDS_ENOUGH:
                    break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mutants", action="store_true", help="search for seeds that find faults")
    chosen = parser.parse_args()
    if not chosen.mutants:
        return run(chosen.first, chosen.seeds, chosen.processes)
    missed = 0
    for mutation in MUTANTS:
        found = search(mutation, chosen.seeds)
        missed += not found
        print(f'    "{mutation.__name__}": {tuple(found)},', flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
