"""Run many seeds, or search for seeds that find the faults in `mutants.py`.

python -m tests.sim.replication --seeds 1000000
python -m tests.sim.replication --mutants --seeds 3000

A run that was stopped goes on where it was when it is started again, unless the code changed.
"""

import argparse
import gc
import hashlib
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

import goqueue.metadata.keyspace
import goqueue.state
from tests.sim.replication.checker import Violation
from tests.sim.replication.mutants import MUTANTS, Mutation
from tests.sim.replication.world import World

CHUNK = 1_000
SEEDS_ENOUGH = 3
# Worlds are full of cycles: a collection for so many of them costs less than Python's own pace, and
# the next worlds find the memory of the last in the processor's caches.
WORLDS_A_COLLECTION = 5
NOTES = Path(".sim")


class Progress(msgspec.Struct, kw_only=True):
    """What is done of a run; kept in a file, so that the run can be taken up again."""

    sources: str
    chunks: set[int] = msgspec.field(default_factory=set)
    committed: int = 0
    seconds: float = 0.0
    failed: list[tuple[int, str]] = msgspec.field(default_factory=list)


@contextmanager
def rare_collections() -> Iterator[None]:
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def failures(seeds: range) -> tuple[int, int, list[tuple[int, str]]]:
    """The first of the seeds, how many records they committed, and which failed."""
    committed = 0
    failed: list[tuple[int, str]] = []
    with rare_collections():
        for seed in seeds:
            world = World(seed)
            try:
                world.run()
            except Violation as violation:
                failed.append((seed, str(violation)))
            committed += sum(len(checker.committed) for checker in world.checkers)
            if seed % WORLDS_A_COLLECTION == 0:
                gc.collect()
    return seeds.start, committed, failed


def run(first: int, count: int, processes: int) -> int:
    notes = NOTES / f"replication-{first}-{count}.json"
    progress = _progress(notes)
    begun, before_s = time.monotonic(), progress.seconds
    waiting = [
        range(start, min(start + CHUNK, first + count))
        for start in range(first, first + count, CHUNK)
        if start not in progress.chunks
    ]
    with multiprocessing.Pool(processes) as pool:
        for start, committed, failed in pool.imap_unordered(failures, waiting):
            progress.chunks.add(start)
            progress.committed += committed
            progress.failed += failed
            progress.seconds = before_s + time.monotonic() - begun
            notes.write_bytes(msgspec.json.encode(progress))
            for seed, violation in failed:
                print(f"seed {seed}: {violation}", flush=True)
            if len(progress.chunks) % 20 == 0:
                done = len(progress.chunks) * CHUNK
                print(f"{done:,} of {count:,} seeds, {len(progress.failed)} failed", flush=True)
    notes.unlink()
    print(
        f"{count:,} seeds in {progress.seconds:.0f} s: {progress.committed:,} records committed, "
        f"{len(progress.failed)} seeds failed"
    )
    return 1 if progress.failed else 0


def _progress(notes: Path) -> Progress:
    notes.parent.mkdir(exist_ok=True)
    sources = _sources()
    if notes.exists():
        found = msgspec.json.decode(notes.read_bytes(), type=Progress)
        if found.sources == sources:
            print(f"going on after {len(found.chunks) * CHUNK:,} seeds", flush=True)
            return found
    return Progress(sources=sources)


def _sources() -> str:
    """Names the code that runs: figures of two versions do not belong together."""
    digest = hashlib.sha256(Path(goqueue.metadata.keyspace.__file__).read_bytes())
    (state,) = goqueue.state.__path__
    machines = [Path(state) / room for room in ("replication", "controller", "membership")]
    for folder in (*machines, Path(__file__).parent):
        for file in sorted(folder.glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


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
