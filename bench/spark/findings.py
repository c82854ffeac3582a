"""What a contest is given, and what it found."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.bars import Bar
from bench.spark.turns import Times


@dataclass(frozen=True, slots=True)
class Given:
    bootstrap_servers: str
    folder: Path
    rows: int
    rounds: int
    kinds: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    title: str
    versions: str
    conditions: str
    tables: Sequence[str]
    bars: Sequence[Bar] = ()


def share(times: Times, name: str, of: str) -> float:
    """Of the other's rate; rounds are compared one by one, for the machine changes between them."""
    pairs = zip(times[of], times[name], strict=True)
    return statistics.median(theirs / ours for theirs, ours in pairs)


def table(title: str, times: Times, rows: int, of: str | None = None) -> list[str]:
    """Rates, and with `of` the share of that contestant."""
    beside = f" of {of} |" if of else ""
    lines = [
        f"| {title} | rows/s | lowest | highest |{beside}",
        "|---|---|---|---|" + ("---|" if of else ""),
    ]
    for name, seconds in times.items():
        rates = (rows / each for each in (statistics.median(seconds), max(seconds), min(seconds)))
        figures = " | ".join(f"{rate:,.0f}" for rate in rates)
        compared = f" {share(times, name, of):.2f} |" if of else ""
        lines.append(f"| {name} | {figures} |{compared}")
    return [*lines, ""]
