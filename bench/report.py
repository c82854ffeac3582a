"""A run as JSON for machines and Markdown for people."""

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from bench.bars import Bar
from bench.figures import GOQUEUE, Row
from bench.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    profile: str
    started_at: datetime
    machine: Machine
    load_average_after: float
    versions: dict[str, str]
    missing: dict[str, str]
    bars: list[Bar]
    rows: list[Row]


def write_report(report: Report, folder: Path) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{report.started_at:%Y-%m-%d-%H%M}-{report.profile}"
    as_json, as_markdown = folder / f"{stem}.json", folder / f"{stem}.md"
    as_json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    as_markdown.write_text(render(report))
    return as_json, as_markdown


def render(report: Report) -> str:
    machine = report.machine
    lines = [
        f"# Benchmark, {report.profile} profile, {report.started_at:%Y-%m-%d %H:%M}",
        "",
        f"{machine.processor}, {machine.cores_used} of {machine.cores_present} cores shared by "
        f"broker and client, {machine.memory_gb} GB, Linux {machine.kernel}, "
        f"Python {machine.python}. Load average {machine.load_average_before} before the run "
        f"(above 0.5 the machine was not quiet), {report.load_average_after} at its end.",
        "",
        *(f"- {name}: {version}" for name, version in report.versions.items()),
        *(f"- **missing** {name}: {reason}" for name, reason in report.missing.items()),
        "",
        "## Bars",
        "",
        *render_bars(report.bars),
    ]
    peers = dict.fromkeys(row.peer for row in report.rows)
    for peer in peers:
        lines += ["", f"## GoQueue beside {peer}", ""]
        lines += _render_rows(peer, [row for row in report.rows if row.peer == peer])
    return "\n".join(lines) + "\n"


def render_bars(bars: list[Bar]) -> list[str]:
    return [
        "| bar | wanted | found | |",
        "|---|---|---|---|",
        *(f"| {bar.name} | {bar.wanted} | {bar.found} | {bar.verdict} |" for bar in bars),
    ]


def _render_rows(peer: str, rows: list[Row]) -> list[str]:
    lines = [
        "Medians, lowest and highest in brackets. Ratio: GoQueue divided by the peer. "
        "CPU: seconds of the broker per million messages. Cores: processor time of broker and "
        "client by wall time; a ratio with a question mark compares rounds that got unequal shares "
        "of the machine.",
        "",
        f"| what | fsync (GoQueue / peer) | GoQueue | {peer} | ratio | CPU GoQueue | CPU peer "
        "| cores GoQueue | cores peer |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = (
            f"{row.section}: {row.label}",
            row.fsync,
            _cell(row, GOQUEUE),
            _cell(row, peer),
            _ratio_cell(row),
            _number(row.cpu(GOQUEUE)),
            _number(row.cpu(peer)),
            _number(row.cores(GOQUEUE)),
            _number(row.cores(peer)),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _ratio_cell(row: Row) -> str:
    ratio = row.ratio()
    if ratio is None or math.isnan(ratio):
        return "-"
    if not row.is_even():
        return f"{ratio:.2f} ?"
    is_ahead = ratio > 1 if row.higher_is_better else ratio < 1
    return f"**{ratio:.2f}**" if is_ahead else f"{ratio:.2f}"


def _cell(row: Row, broker: str) -> str:
    if broker in row.failures:
        return f"failed: {row.failures[broker]}"
    value, spread = row.value(broker), row.spread(broker)
    if value is None or spread is None:
        return "-"
    if len(row.samples[broker]) == 1:
        return f"{_number(value)} {row.unit}"
    return f"{_number(value)} {row.unit} ({_number(spread[0])} to {_number(spread[1])})"


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
