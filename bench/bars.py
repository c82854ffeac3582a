"""The bars that the product sets itself, checked against the rows of one run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.figures import GOQUEUE, Row
from bench.kafka_shapes import READERS, REQUESTS, TRANSACTIONS
from bench.profiles import HEADLINE

MIN_RATE_PER_S: Final = 500_000
MIN_SHARE_OF_KAFKA: Final = 0.8
MAX_PUBLISH_P99_MS: Final = 10.0
MAX_START_S: Final = 1.0
MAX_IDLE_MB: Final = 150.0
MAX_LOOKUP_MS: Final = 1.0
# "Flat": from the second to the last reading; the first still fills caches and buffer pools.
MAX_GROWTH_MB: Final = 15.0

MET: Final = "met"
NOT_MET: Final = "NOT MET"
NOT_MEASURED: Final = "not measured"


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    wanted: str
    found: str
    verdict: str


def check_bars(rows: Sequence[Row], kafka: str) -> list[Bar]:
    """`rows` of the suite beside Kafka; a bar without its row is reported as not measured."""
    ours = [row for row in rows if row.peer == kafka]
    return [
        _headline_rate(ours),
        *(
            _share_of_kafka(ours, section)
            for section in ("produce", "consume", REQUESTS, READERS, TRANSACTIONS)
        ),
        _most(ours, "publish latency", "defaults", "p99", MAX_PUBLISH_P99_MS, "ms"),
        _most(ours, "publish latency", "linger 1", "p99", MAX_PUBLISH_P99_MS, "ms"),
        _most(ours, "start-up", "", "", MAX_START_S, "s"),
        _most(ours, "memory", "idle", "", MAX_IDLE_MB, "MB"),
        _memory_growth(ours),
        _most(ours, "look-up", "by offset", "p99", MAX_LOOKUP_MS, "ms"),
        _most(ours, "look-up", "by time", "p99", MAX_LOOKUP_MS, "ms"),
        _million_compared(ours),
    ]


def _find(rows: Iterable[Row], section: str, label: str, ending: str = "") -> Row | None:
    for row in rows:
        if row.section == section and label in row.label and row.label.endswith(ending):
            return row
    return None


def _verdict(is_met: bool) -> str:
    return MET if is_met else NOT_MET


def _headline_rate(rows: Sequence[Row]) -> Bar:
    row = _find(rows, "produce", HEADLINE.label)
    found = row.value(GOQUEUE) if row else None
    name = f"produce, {HEADLINE.label}"
    wanted = f"≥ {MIN_RATE_PER_S:,} msg/s"
    if found is None:
        return Bar(name, wanted, "-", NOT_MEASURED)
    return Bar(name, wanted, f"{found:,.0f} msg/s", _verdict(found >= MIN_RATE_PER_S))


def _share_of_kafka(rows: Sequence[Row], section: str) -> Bar:
    """A case that the peer failed says nothing; one that GoQueue failed counts against it."""
    ratios = {
        row.label: row.ratio()
        for row in rows
        if row.section == section and row.peer not in row.failures
    }
    known = {label: ratio for label, ratio in ratios.items() if ratio is not None}
    name, wanted = f"{section}, every case", f"≥ {MIN_SHARE_OF_KAFKA} × Kafka"
    if not known:
        return Bar(name, wanted, "-", NOT_MEASURED)
    worst = min(known, key=known.__getitem__)
    above = sum(ratio >= MIN_SHARE_OF_KAFKA for ratio in known.values())
    uneven = sum(row.section == section and not row.is_even() for row in rows)
    found = f"{above} of {len(ratios)} cases; lowest {known[worst]:.2f} × ({worst})"
    if uneven:
        found += f"; {uneven} measured under uneven load"
    return Bar(name, wanted, found, _verdict(above == len(ratios)))


def _most(
    rows: Sequence[Row], section: str, label: str, ending: str, limit: float, unit: str
) -> Bar:
    row = _find(rows, section, label, ending)
    name = f"{section}, {row.label}" if row else f"{section} {label} {ending}".strip()
    wanted = f"< {limit:g} {unit}"
    found = row.value(GOQUEUE) if row else None
    if found is None:
        return Bar(name, wanted, "-", NOT_MEASURED)
    return Bar(name, wanted, f"{found:.3g} {unit}", _verdict(found < limit))


def _memory_growth(rows: Sequence[Row]) -> Bar:
    row = _find(rows, "memory", "after each")
    readings = [sample.value for sample in row.samples.get(GOQUEUE, ())] if row else []
    name, wanted = "memory, flat under load", f"< {MAX_GROWTH_MB:g} MB from round 2 on"
    if len(readings) < 3:
        return Bar(name, wanted, "-", NOT_MEASURED)
    growth = readings[-1] - readings[1]
    steps = " ".join(f"{reading:.0f}" for reading in readings)
    return Bar(name, wanted, f"{growth:+.1f} MB ({steps})", _verdict(growth < MAX_GROWTH_MB))


def _million_compared(rows: Sequence[Row]) -> Bar:
    """The reader compares every byte, offset and order; a difference fails its round."""
    row = _find(rows, "consume", HEADLINE.label)
    name = f"{HEADLINE.count:,} messages written, read back, compared"
    if row is None:
        return Bar(name, "all equal", "-", NOT_MEASURED)
    if GOQUEUE in row.failures:
        return Bar(name, "all equal", row.failures[GOQUEUE], NOT_MET)
    rounds = len(row.samples.get(GOQUEUE, ()))
    return Bar(name, "all equal", f"all equal, {rounds} times", _verdict(rounds > 0))
