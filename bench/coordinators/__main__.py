"""Measure, print, and write the results."""

import argparse
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.artifacts import ROOT, kafka_load
from bench.bars import Bar
from bench.coordinators.heartbeats import measure_heartbeats
from bench.coordinators.idempotence import measure_idempotence
from bench.coordinators.rebalances import HEARTBEAT_MS, RATE_PER_S, measure_rebalances
from bench.coordinators.recovery import measure_recovery
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.report import render_bars
from bench.rounds import say

RESULTS: Final = ROOT / "bench" / "results"
SUITES: Final[dict[str, Callable[[], list[Bar]]]] = {
    "rebalances": measure_rebalances,
    "heartbeats": measure_heartbeats,
    "idempotence": measure_idempotence,
    "recovery": measure_recovery,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.coordinators", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)} (default: all)"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    suites = arguments.suites or list(SUITES)
    unknown = set(suites) - set(SUITES)
    if unknown:
        parser.error(f"unknown suites: {', '.join(sorted(unknown))}")
    keep_to_two_cores()
    kafka_load()
    started_at = datetime.now().astimezone()
    machine = describe_machine()
    bars: list[Bar] = []
    for name in suites:
        say(name)
        bars += SUITES[name]()
    text = "\n".join(
        [
            f"# Groups and transactions, {started_at:%Y-%m-%d %H:%M}",
            "",
            f"{machine.processor}, {machine.cores_used} cores shared by broker and clients, Linux "
            f"{machine.kernel}, Python {machine.python}. Load average "
            f"{machine.load_average_before} before the run (above 0.5 the machine was not quiet), "
            f"{load_average()} at its end.",
            "",
            f"Rebalances: {RATE_PER_S:,} messages/s, heartbeats every {HEARTBEAT_MS} ms.",
            "",
            *render_bars(bars),
            "",
        ]
    )
    arguments.results.mkdir(parents=True, exist_ok=True)
    path = arguments.results / f"{started_at:%Y-%m-%d-%H%M}-coordinators.md"
    path.write_text(text)
    print(text)
    say(f"written: {path}")


if __name__ == "__main__":
    main()
