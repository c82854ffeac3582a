"""The same rows from a topic and from Parquet, to the no-op sink.

Where Maven Central has the connector, Spark's own Kafka source reads the same topic in turns.
"""

import statistics
from typing import Final

from bench.bars import MET, NOT_MEASURED, NOT_MET, Bar
from bench.rounds import say
from bench.spark.contestants import (
    BATCH,
    BY_SELECT,
    COLUMNS,
    COUNT,
    GOQUEUE_SOURCE,
    KAFKA_SOURCE,
    KINDS,
    PARQUET,
    STREAM,
    Contest,
)
from bench.spark.findings import Findings, Given, share, table
from bench.spark.topic_filling import VALUE_BYTES, fill_topic
from bench.spark.turns import Times, take_turns

__all__ = ["KINDS", "measure"]

PARTITIONS: Final = 4
# Planning and a few tasks that fetch nothing.
MAX_COUNT_S: Final = 0.5
# Kind, contestant -> the least share of Parquet's rate.
MIN_SHARES_OF_PARQUET: Final = {
    (BATCH, GOQUEUE_SOURCE): 0.7,
    (COLUMNS, GOQUEUE_SOURCE): 0.7,
    (COLUMNS, BY_SELECT): 0.7,
    (STREAM, GOQUEUE_SOURCE): 0.6,
}


def measure(given: Given) -> Findings:
    say(f"filling a topic with {given.rows:,} rows")
    fill_topic(given.bootstrap_servers, given.rows, PARTITIONS)
    contest = Contest(given.bootstrap_servers, given.folder, given.rows)
    say("copying it to Parquet")
    contest.write_parquet()
    found: dict[str, Times] = {}
    for kind in given.kinds:
        say(kind)
        found[kind] = take_turns(contest.contestants(kind), given.rounds)
    versions = contest.versions()
    contest.close()
    return Findings(
        title=f"Spark reads {given.rows:,} × {VALUE_BYTES} bytes",
        versions=versions,
        conditions=f"{PARTITIONS} partitions, keys of 8 bytes; rows go to the no-op sink, full "
        "ones unless columns are named",
        tables=[
            line
            for kind, times in found.items()
            for line in table(kind, times, given.rows, PARQUET)
        ],
        bars=_bars(found),
    )


def _bars(found: dict[str, Times]) -> list[Bar]:
    bars = []
    for (kind, name), wanted in MIN_SHARES_OF_PARQUET.items():
        if kind in found:
            reached = share(found[kind], name, PARQUET)
            verdict = MET if reached >= wanted else NOT_MET
            label = kind if name == GOQUEUE_SOURCE else f"{kind}, by select"
            bars.append(Bar(f"{label}, of Parquet", f"{wanted:.2f}", f"{reached:.2f}", verdict))
    if COUNT in found:
        seconds = statistics.median(found[COUNT][GOQUEUE_SOURCE])
        verdict = MET if seconds < MAX_COUNT_S else NOT_MET
        bars.append(Bar(COUNT, f"from offsets, {MAX_COUNT_S:g} s", f"{seconds:.2f} s", verdict))
    if any(KAFKA_SOURCE not in times for times in found.values()):
        bars.append(Bar("Spark's Kafka source", "runs", "no connector", NOT_MEASURED))
    return bars
