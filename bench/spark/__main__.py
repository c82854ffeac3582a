"""Read the same rows from a running broker and from Parquet, in turns: `python -m bench.spark`.

Rows go to Spark's no-op sink. Broker, Spark and its Python workers share two cores. Where Maven
Central has the connector, Spark's own Kafka source reads the same topic in the same turns. Typed
columns are measured by `python -m bench.spark.typed_reading`, writing by `bench.spark.writing`.
"""

import argparse
import statistics
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.artifacts import ROOT
from bench.bars import MET, NOT_MEASURED, NOT_MET, Bar
from bench.brokers.goqueue import GoQueue
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.report import render_bars
from bench.rounds import say
from bench.spark.contestants import (
    BATCH,
    COLUMNS,
    COUNT,
    GOQUEUE_SOURCE,
    KAFKA_SOURCE,
    KINDS,
    PARQUET,
    STREAM,
    Contest,
)
from bench.spark.topic_filling import VALUE_BYTES, fill_topic
from bench.spark.turns import Times, take_turns

RESULTS: Final = ROOT / "bench" / "results"
PARTITIONS: Final = 4
# Planning and a few tasks that fetch nothing.
MAX_COUNT_S: Final = 0.5
MIN_SHARES_OF_PARQUET: Final = {BATCH: 0.7, COLUMNS: 0.7, STREAM: 0.6}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=KINDS, help="what to measure, if not all"
    )
    parser.add_argument("--save", action="store_true", help="keep the table in bench/results")
    given = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    started_at = datetime.now().astimezone()
    broker = GoQueue()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        broker.start(Path(folder))
        try:
            servers = f"127.0.0.1:{broker.port}"
            say(f"filling a topic with {given.rows:,} rows")
            fill_topic(servers, given.rows, PARTITIONS)
            contest = Contest(servers, Path(folder), given.rows)
            say("copying it to Parquet")
            contest.write_parquet()
            found: dict[str, Times] = {}
            for kind in given.kinds:
                say(kind)
                found[kind] = take_turns(contest.contestants(kind), given.rounds)
            versions = contest.versions()
            contest.close()
        finally:
            broker.stop()
    text = "\n".join(
        [
            f"# Spark reads {given.rows:,} × {VALUE_BYTES} bytes, {started_at:%Y-%m-%d %H:%M}",
            "",
            f"{machine.processor}, {machine.cores_used} cores shared by broker, Spark (local[2]) "
            f"and its workers, Linux {machine.kernel}, Python {machine.python}, {versions}. "
            f"GoQueue {broker.version()} as it starts (fsync.policy=interval). Load average "
            f"{machine.load_average_before} before the run (above 0.5 the machine was not quiet), "
            f"{load_average()} at its end.",
            "",
            f"{PARTITIONS} partitions, keys of 8 bytes, {given.rounds} rounds after one to warm "
            "up, contestants in turns; rows go to the no-op sink, full ones unless columns are "
            "named. Rows/s: median, lowest and highest round; and the median share of Parquet in "
            "the same round.",
            "",
            *(line for kind, times in found.items() for line in _table(kind, times, given.rows)),
            *render_bars(_bars(found)),
            "",
        ]
    )
    print(text)
    if given.save:
        path = RESULTS / f"{started_at:%Y-%m-%d-%H%M}-spark.md"
        path.write_text(text)
        say(f"written: {path}")


def _share(times: Times, name: str) -> float:
    """Of Parquet's rate; rounds are compared one by one, for the machine changes between them."""
    pairs = zip(times[PARQUET], times[name], strict=True)
    return statistics.median(parquet / other for parquet, other in pairs)


def _table(title: str, times: Times, rows: int) -> list[str]:
    lines = [f"| {title} | rows/s | lowest | highest | of Parquet |", "|---|---|---|---|---|"]
    for name, seconds in times.items():
        rates = (rows / each for each in (statistics.median(seconds), max(seconds), min(seconds)))
        figures = " | ".join(f"{rate:,.0f}" for rate in rates)
        lines.append(f"| {name} | {figures} | {_share(times, name):.2f} |")
    return [*lines, ""]


def _bars(found: dict[str, Times]) -> list[Bar]:
    bars = []
    for kind, wanted in MIN_SHARES_OF_PARQUET.items():
        if kind in found:
            share = _share(found[kind], GOQUEUE_SOURCE)
            verdict = MET if share >= wanted else NOT_MET
            bars.append(Bar(f"{kind}, of Parquet", f"{wanted:.2f}", f"{share:.2f}", verdict))
    if COUNT in found:
        seconds = statistics.median(found[COUNT][GOQUEUE_SOURCE])
        verdict = MET if seconds < MAX_COUNT_S else NOT_MET
        bars.append(Bar(COUNT, f"from offsets, {MAX_COUNT_S:g} s", f"{seconds:.2f} s", verdict))
    if any(KAFKA_SOURCE not in times for times in found.values()):
        bars.append(Bar("Spark's Kafka source", "runs", "no connector", NOT_MEASURED))
    return bars


if __name__ == "__main__":
    main()
