"""Exactly-once from a topic into a Delta table under SIGKILL of driver, workers and broker.

Numbered messages go into a topic, a streaming query archives them. At the end the table must hold
every number once, and know its offsets.

    python -m tests.crash.spark_delta_rounds --rounds 20
"""

import argparse
import datetime
import os
import platform
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyspark

from goqueue.spark.archive_table import archive_target, next_offsets, open_archive
from goqueue.testing import ServerProcess
from tests.crash.spark_job import SparkJob
from tests.crash.spark_rounds import (
    PARTITIONS,
    RESULTS,
    SOURCE,
    VICTIMS,
    Rounds,
    make_topics,
    run_rounds,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    versions: int
    compactions: int
    files: int


def archive_under_fire(
    folder: Path, victims: Iterable[str], seed: str
) -> tuple[Rounds, SparkJob, TableFacts]:
    rounds = Rounds(random.Random(seed))
    table = folder / "table"
    with ServerProcess(folder / "data", "--set", "log.level=warning") as server:
        make_topics(server.bootstrap_servers, SOURCE)
        job = SparkJob(
            "tests.crash.spark_delta_job",
            server.bootstrap_servers,
            SOURCE,
            str(table),
            str(folder / "checkpoint"),
            log=folder / "job.log",
        )
        try:
            run_rounds(server, job, rounds, victims)
        finally:
            job.kill()
        job.run_to_end("--available-now")
        facts = check_table(table, rounds)
        assert "Traceback" not in server.log_text, server.log_text
    return rounds, job, facts


def check_table(path: Path, rounds: Rounds) -> TableFacts:
    table = open_archive(archive_target(str(path)))
    rows = table.to_pyarrow_table(columns=["partition", "offset", "value"])
    values: list[bytes] = [bytes(value) for value in rows.column("value").to_pylist() if value]
    found = Counter(values)
    lost, foreign = rounds.sent - found, found - rounds.sent
    assert not lost, f"{len(lost)} messages are lost, such as {next(iter(lost))!r}"
    assert not foreign, f"{len(foreign)} are there twice, such as {next(iter(foreign))!r}"
    ends = next_offsets(table, range(PARTITIONS))
    reached: dict[int, int] = {}
    for row in rows.select(["partition", "offset"]).to_pylist():
        reached[row["partition"]] = max(reached.get(row["partition"], 0), row["offset"] + 1)
    assert ends == reached, "the table's offsets are not those of its records"
    history = table.history()
    return TableFacts(
        versions=table.version(),
        compactions=sum(entry["operation"] == "OPTIMIZE" for entry in history),
        files=len(table.file_uris()),
    )


def _report(rounds: Rounds, job: SparkJob, facts: TableFacts, seed: str, seconds: float) -> Path:
    when = datetime.datetime.now(datetime.UTC)
    kills = ", ".join(f"{victim} {rounds.kills[victim]}" for victim in VICTIMS)
    path = RESULTS / f"{when:%Y-%m-%d}-spark-delta-faults.md"
    path.write_text(
        "# Exactly-once from a topic into a Delta table under SIGKILL\n\n"
        "Archive by a streaming query with checkpoint, checked by content.\n"
        "`python -m tests.crash.spark_delta_rounds`\n\n"
        f"- Kills: {kills}; the query was started {job.starts} times.\n"
        f"- Messages: {len(rounds.sent)}; every one is in the table exactly once, and the table's "
        "offsets are those of its records.\n"
        f"- The table has {facts.versions} versions, {facts.compactions} of them compactions, and "
        f"{facts.files} files at the end.\n"
        f"- {seconds:.0f} s, seed {seed}; Spark {pyspark.__version__}, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.\n"
    )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="kills of each kind")
    parser.add_argument("--seed", default=str(random.randrange(10**6)))
    given = parser.parse_args()
    victims = list(VICTIMS) * given.rounds
    random.Random(given.seed).shuffle(victims)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        rounds, job, facts = archive_under_fire(Path(folder), victims, given.seed)
    print(_report(rounds, job, facts, given.seed, time.monotonic() - started).read_text())


if __name__ == "__main__":
    main()
