"""Spark's own Kafka source and sink on GoQueue, and ours beside it.

`python -m bench.spark.kafka_connector` fetches the connector, checks what it does with GoQueue,
and then lets both sources read the same topic in turns.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.artifacts import ROOT, Missing
from bench.brokers.goqueue import GoQueue
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.rounds import say
from bench.spark.connector_checks import ConnectorChecks, all_checks
from bench.spark.connector_jars import TOKEN_PROVIDER_VERSION, connector_jars
from bench.spark.contestants import BATCH, GOQUEUE_SOURCE, KAFKA_SOURCE, STREAM, Contest
from bench.spark.topic_filling import VALUE_BYTES, fill_topic
from bench.spark.turns import Times, take_turns

RESULTS: Final = ROOT / "bench" / "results"
PARTITIONS: Final = 4


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark.kafka_connector")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="keep the result in bench/results")
    given = parser.parse_args()
    try:
        connector_jars()
    except Missing as error:
        sys.exit(f"Spark's Kafka connector: {error}")
    keep_to_two_cores()
    machine = describe_machine()
    started_at = datetime.now().astimezone()
    broker = GoQueue()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as name:
        folder = Path(name)
        broker.start(folder)
        try:
            servers = f"127.0.0.1:{broker.port}"
            contest = Contest(servers, folder, given.rows)
            checked = _check(ConnectorChecks(contest.spark, servers, folder))
            say(f"filling a topic with {given.rows:,} rows")
            fill_topic(servers, given.rows, PARTITIONS)
            batch, stream = (_compare(contest, kind, given.rounds) for kind in (BATCH, STREAM))
            versions = contest.versions()
            contest.close()
        finally:
            broker.stop()
    text = "\n".join(
        [
            f"# Spark's Kafka connector on GoQueue, {started_at:%Y-%m-%d %H:%M}",
            "",
            f"{machine.processor}, {machine.cores_used} cores shared by broker, Spark (local[2]) "
            f"and its workers, Linux {machine.kernel}, Python {machine.python}, {versions} with "
            f"token provider {TOKEN_PROVIDER_VERSION}. GoQueue {broker.version()} as it starts. "
            f"Load average {machine.load_average_before} before the run (above 0.5 the machine was "
            f"not quiet), {load_average()} at its end.",
            "",
            "| check | | s |",
            "|---|---|---:|",
            *checked,
            "",
            f"{given.rows:,} × {VALUE_BYTES} bytes, {PARTITIONS} partitions, full rows to the "
            f"no-op sink, {given.rounds} rounds after one to warm up, in turns. Median rows/s; the "
            "ratio is the median of the rounds' own.",
            "",
            f"| | {GOQUEUE_SOURCE} | {KAFKA_SOURCE} | ratio |",
            "|---|---:|---:|---:|",
            _line("batch", batch, given.rows),
            _line("stream, availableNow", stream, given.rows),
            "",
        ]
    )
    print(text)
    if given.save:
        path = RESULTS / f"{started_at:%Y-%m-%d}-spark-kafka-connector.md"
        path.write_text(text)
        say(f"written: {path}")


def _check(checks: ConnectorChecks) -> list[str]:
    lines = []
    for check in all_checks(checks):
        started = time.perf_counter()
        verdict = _verdict(check)
        title = (check.__doc__ or "").strip()
        say(f"  {title}: {verdict}")
        lines.append(f"| {title} | {verdict} | {time.perf_counter() - started:.1f} |")
    return lines


def _verdict(check: Callable[[], None]) -> str:
    try:
        check()
    except Exception as error:  # one that fails must not keep the others from being tried
        say(str(error))
        return f"FAILED: {type(error).__name__}, see the output"
    return "works"


def _compare(contest: Contest, kind: str, rounds: int) -> Times:
    every = contest.contestants(kind)
    return take_turns({name: every[name] for name in (GOQUEUE_SOURCE, KAFKA_SOURCE)}, rounds)


def _line(title: str, times: Times, rows: int) -> str:
    ours, theirs = times[GOQUEUE_SOURCE], times[KAFKA_SOURCE]
    ratio = statistics.median(other / own for own, other in zip(ours, theirs, strict=True))
    rates = (rows / statistics.median(seconds) for seconds in (ours, theirs))
    return f"| {title} | {' | '.join(f'{rate:,.0f}' for rate in rates)} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
