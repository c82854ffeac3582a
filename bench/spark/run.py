"""One run: a broker, a kind of contest beside it, and the table of what was found.

`python -m bench.spark` reads whole rows, `python -m bench.spark typed` typed columns,
`python -m bench.spark writing` writes. Broker, Spark and its Python workers share two cores, and
contestants take turns.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.artifacts import ROOT
from bench.bars import Bar
from bench.brokers.goqueue import GoQueue
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.report import render_bars
from bench.rounds import say
from bench.spark import reading, typed_reading, writing
from bench.spark.findings import Findings, Given

RESULTS: Final = ROOT / "bench" / "results"


@dataclass(frozen=True, slots=True)
class Kind:
    measure: Callable[[Given], Findings]
    rows: int
    kinds: Sequence[str]
    file: str


KINDS: Final = {
    "reading": Kind(reading.measure, 5_000_000, reading.KINDS, "spark"),
    "typed": Kind(typed_reading.measure, 2_000_000, typed_reading.KINDS, "spark-typed"),
    "writing": Kind(writing.measure, 2_000_000, (), "spark-writing"),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("what", nargs="?", choices=KINDS, default="reading")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", help="what to measure, if not all")
    parser.add_argument("--save", action="store_true", help="keep the table in bench/results")
    given = parser.parse_args()
    kind = KINDS[given.what]
    if not set(given.kinds or ()) <= set(kind.kinds):
        parser.error(f"--kinds: {given.what} knows {', '.join(kind.kinds) or 'none'}")
    keep_to_two_cores()
    machine = describe_machine()
    started_at = datetime.now().astimezone()
    rows = given.rows or kind.rows
    broker = GoQueue()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        broker.start(Path(folder))
        try:
            servers = f"127.0.0.1:{broker.port}"
            found = kind.measure(
                Given(servers, Path(folder), rows, given.rounds, given.kinds or kind.kinds)
            )
        finally:
            broker.stop()
    text = "\n".join(
        [
            f"# {found.title}, {started_at:%Y-%m-%d %H:%M}",
            "",
            f"{machine.processor}, {machine.cores_used} cores shared by broker, Spark (local[2]) "
            f"and its workers, Linux {machine.kernel}, Python {machine.python}, {found.versions}. "
            f"GoQueue {broker.version()} as it starts (fsync.policy=interval). Load average "
            f"{machine.load_average_before} before the run (above 0.5 the machine was not quiet), "
            f"{load_average()} at its end.",
            "",
            f"{found.conditions}, {given.rounds} rounds after one to warm up, contestants in "
            "turns. Rows/s: median, lowest and highest round.",
            "",
            *found.tables,
            *_bars(found.bars),
        ]
    )
    print(text)
    if given.save:
        path = RESULTS / f"{started_at:%Y-%m-%d-%H%M}-{kind.file}.md"
        path.write_text(text)
        say(f"written: {path}")


def _bars(bars: Sequence[Bar]) -> list[str]:
    return [*render_bars(list(bars)), ""] if bars else []
