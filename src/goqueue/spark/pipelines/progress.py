"""How far a run is: the same few numbers for every kind of pipeline."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from goqueue.spark.source.stream_offsets import StreamOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    query: str
    # The batch's number, or that of a step; None before the first.
    batch_id: int | None = None
    # Rows of that batch, and how fast they went.
    batch_rows: int = 0
    rows_per_second: float = 0.0
    # Rows since the start of this run.
    total_rows: int = 0
    # Records that are in the topics and were not yet read; None where nobody knows.
    lag: int | None = None
    watermark: str | None = None
    at_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "batchId": self.batch_id,
            "batchRows": self.batch_rows,
            "rowsPerSecond": round(self.rows_per_second, 1),
            "totalRows": self.total_rows,
            "lag": self.lag,
            "watermark": self.watermark,
            "atMs": self.at_ms,
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> "Progress":
        return cls(
            query=written["query"],
            batch_id=written["batchId"],
            batch_rows=written["batchRows"],
            rows_per_second=written["rowsPerSecond"],
            total_rows=written["totalRows"],
            lag=written["lag"],
            watermark=written["watermark"],
            at_ms=written["atMs"],
        )

    def __str__(self) -> str:
        batch = "-" if self.batch_id is None else str(self.batch_id)
        parts = [
            f"{self.query}: batch {batch}",
            f"{self.batch_rows} rows",
            f"{self.rows_per_second:.0f} rows/s",
            f"total {self.total_rows}",
            f"lag {'-' if self.lag is None else self.lag}",
        ]
        if self.watermark:
            parts.append(f"watermark {self.watermark}")
        return ", ".join(parts)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch_progress(query: str, reported: Mapping[str, Any], rows_before: int) -> Progress:
    """Of Spark's own report on a batch; `rows_before` were read by earlier batches."""
    rows = int(reported.get("numInputRows") or 0)
    speed = reported.get("processedRowsPerSecond")
    watermark = (reported.get("eventTime") or {}).get("watermark")
    return Progress(
        query=query,
        batch_id=int(reported["batchId"]),
        batch_rows=rows,
        rows_per_second=float(speed) if isinstance(speed, int | float) and speed == speed else 0.0,
        total_rows=rows_before + rows,
        lag=_lag(reported.get("sources") or ()),
        # Before the first row it is 1970, which says nothing.
        watermark=None if watermark is None or watermark.startswith("1970-") else watermark,
        at_ms=now_ms(),
    )


def _lag(sources: Any) -> int | None:
    lags = [lag for source in sources if (lag := _source_lag(source)) is not None]
    return sum(lags) if lags else None


def _source_lag(source: Mapping[str, Any]) -> int | None:
    latest, reached = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if latest is None or reached is None:
        return None
    return sum(
        max(0, offset - reached.next_offsets.get(place, 0))
        for place, offset in latest.next_offsets.items()
    )


def _offsets(written: Any) -> StreamOffsets | None:
    """None for sources that are not ours."""
    try:
        parsed = json.loads(written) if isinstance(written, str) else written
        return StreamOffsets.from_json(parsed)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
