"""Read the same rows from a running broker and from Parquet, in turns: `python -m bench.spark`.

Rows are full (every column of the source) and go to Spark's no-op sink. Broker, Spark and its
Python workers share two cores. Where Maven Central has the connector, Spark's own Kafka source
reads the same topic in the same turns.
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
    GOQUEUE_SOURCE,
    KAFKA_SOURCE,
    PARQUET,
    STREAM,
    Contest,
)
from bench.spark.topic_filling import VALUE_BYTES, fill_topic
from bench.spark.turns import Times, take_turns

RESULTS: Final = ROOT / "bench" / "results"
PARTITIONS: Final = 4
MIN_SHARE_OF_PARQUET: Final = 0.6
MIN_ROWS_PER_S: Final = 600_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
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
            batch = take_turns(contest.contestants(BATCH), given.rounds)
            stream = take_turns(contest.contestants(STREAM), given.rounds)
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
            "up, contestants in turns; full rows to the no-op sink. Median rows/s, and the share "
            "of Parquet in the same round.",
            "",
            *_table("batch", batch, given.rows),
            *_table("stream, availableNow", stream, given.rows),
            *render_bars(_bars(batch, stream, given.rows)),
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
    lines = [f"| {title} | rows/s | of Parquet |", "|---|---|---|"]
    for name, seconds in times.items():
        rate = rows / statistics.median(seconds)
        lines.append(f"| {name} | {rate:,.0f} | {_share(times, name):.2f} |")
    return [*lines, ""]


def _bars(batch: Times, stream: Times, rows: int) -> list[Bar]:
    rate = rows / statistics.median(batch[GOQUEUE_SOURCE])
    bars = [
        _least("batch, share of Parquet", _share(batch, GOQUEUE_SOURCE), MIN_SHARE_OF_PARQUET),
        _least("batch, rows/s", rate, MIN_ROWS_PER_S),
        _least("stream, share of Parquet", _share(stream, GOQUEUE_SOURCE), MIN_SHARE_OF_PARQUET),
    ]
    if KAFKA_SOURCE not in batch:
        bars.append(Bar("Spark's Kafka source", "runs", "no connector", NOT_MEASURED))
    return bars


def _least(name: str, found: float, wanted: float) -> Bar:
    text = "{:,.0f}" if wanted > 10 else "{:.2f}"
    verdict = MET if found >= wanted else NOT_MET
    return Bar(name, f"at least {text.format(wanted)}", text.format(found), verdict)


if __name__ == "__main__":
    main()
