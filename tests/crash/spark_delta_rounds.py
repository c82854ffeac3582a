"""Exactly-once from a topic into a Delta table under SIGKILL of driver, workers and broker.

Numbered messages go into a topic, a streaming query archives them. At the end the table must hold
every number once, and know its offsets.

    python -m tests.crash.spark_delta_rounds --rounds 20 [--cluster]
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from goqueue.spark.archive.table import archive_target, next_offsets, open_archive
from tests.crash.spark_brokers import SparkBrokers
from tests.crash.spark_job import SparkJob
from tests.crash.spark_rounds import (
    PARTITIONS,
    SOURCE,
    Rounds,
    check_each_once,
    make_topics,
    play,
    run_rounds,
    write_report,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    versions: int
    compactions: int
    files: int


def archive_under_fire(
    folder: Path, victims: Iterable[str], seed: str, *, of_a_cluster: bool
) -> tuple[Rounds, SparkJob, TableFacts]:
    rounds = Rounds(random.Random(seed))
    table = folder / "table"
    with SparkBrokers(folder, of_a_cluster=of_a_cluster) as server:
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
    check_each_once(rounds, [bytes(value or b"") for value in rows.column("value").to_pylist()])
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


def main() -> None:
    (rounds, job, facts), played = play(__doc__, archive_under_fire)
    what = [
        "Exactly-once from a topic into a Delta table under SIGKILL",
        "Archive by a streaming query with checkpoint, checked by content.\n"
        "`python -m tests.crash.spark_delta_rounds`",
        f"Messages: {len(rounds.sent)}; every one is in the table exactly once, and the table's "
        "offsets are those of its records.",
        f"The table has {facts.versions} versions, {facts.compactions} of them compactions, and "
        f"{facts.files} files at the end.",
    ]
    print(write_report(played.results("spark-delta-faults"), what, rounds, job, played))


if __name__ == "__main__":
    main()
