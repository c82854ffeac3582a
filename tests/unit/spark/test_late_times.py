"""Times that a topic may hold and a calendar of four-digit years does not."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from goqueue.spark.archive.delta_files import DataFileWriter
from goqueue.spark.archive.rows import ArchiveRows

USUAL_MS = 1_700_000_000_000
# Of a producer that counts microseconds.
MICROSECONDS = USUAL_MS * 1_000
TIME = pa.timestamp("us", "UTC")


def _records(*times_ms: int | None) -> pa.RecordBatch:
    micros = [None if each is None else each * 1_000 for each in times_ms]
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([0] * len(micros), pa.int32()),
            "offset": pa.array(range(len(micros)), pa.int64()),
            "timestamp": pa.array(micros, pa.int64()).cast(TIME),
        }
    )


@pytest.mark.parametrize(
    ("time_ms", "day", "has_bounds"),
    [
        (USUAL_MS, "2023-11-14", True),
        (None, None, True),
        (MICROSECONDS, "9999-12-31", False),
    ],
)
def test_an_archive_takes_any_time(
    tmp_path: Path, time_ms: int | None, day: str | None, has_bounds: bool
) -> None:
    writer = DataFileWriter(str(tmp_path), ["day", "partition"])
    for rows in ArchiveRows(topic="orders")(iter([_records(time_ms)])):
        writer.write(rows)
    (file,) = writer.finish().files
    assert (file.partition_values["day"], file.row_count) == (day, 1)
    stats = json.loads(file.stats)
    assert ("timestamp" in stats["maxValues"]) == (has_bounds and time_ms is not None)
    assert "offset" in stats["maxValues"]
