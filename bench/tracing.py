"""What tracing costs: `python -m bench.tracing`.

One broker process with its defaults, driven by the C client; topics differ only in their tracing
settings and take turns, in an order that changes. Two ratios to topics without tracing are given:
of throughput, and of messages per second of the broker's processor time. The second says what
tracing costs even where something else is the bottleneck, and is steadier on a busy machine.
"""

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.brokers.goqueue import GoQueue
from bench.brokers.kafka_speaker import Fsync, run_throughput
from bench.figures import Sample
from bench.load_run import Finished, Throughput
from bench.machine import Machine, describe_machine, keep_to_two_cores
from bench.rounds import fresh_topic, measured, say, settle

RESULTS: Final = Path(__file__).parent / "results"
OFF: Final = "off"
LOSS_BAR: Final = 0.05
# Spans are written out in the background; their cost belongs to the round that made them.
EXPORT_SETTLES_S: Final = 0.4

MODES: Final[Mapping[str, Mapping[str, str]]] = {
    OFF: {"tracing.enabled": "false"},
    "1 %": {"tracing.sampling.rate": "0.01"},
    "100 %": {"tracing.sampling.rate": "1"},
}


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    name: str
    settings: tuple[str, ...] = ()


LOADS: Final = (
    Load("100 B"),
    Load("100 B, zstd", ("--set", "compression.type=zstd")),
    # As a producer that sends each message at once: few share a batch.
    Load("100 B, small batches", ("--set", "batch.num.messages=10")),
)


class TracedTopics(GoQueue):
    """The same process for all modes; only new topics differ."""

    def __init__(self) -> None:
        super().__init__()
        self.tracing: Mapping[str, str] = {}

    def topic_config(self, fsync: Fsync) -> Mapping[str, str]:
        return {**super().topic_config(fsync), **self.tracing}


@dataclasses.dataclass(slots=True)
class Figures:
    load: str
    mode: str
    produced: list[Sample] = dataclasses.field(default_factory=list)
    consumed: list[Sample] = dataclasses.field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tracing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--loads", type=int, default=len(LOADS), help="only the first so many")
    parser.add_argument("--save", action="store_true", help="keep the table in bench/results")
    given = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    results: list[Figures] = []
    broker = TracedTopics()
    with tempfile.TemporaryDirectory(prefix="bench-tracing-") as folder:
        broker.start(Path(folder))
        try:
            for load in LOADS[: given.loads]:
                results += measure(broker, load, given.rounds, given.messages)
        finally:
            broker.stop()
    text = render(machine, results, given.messages)
    print(text)
    if given.save:
        path = RESULTS / f"{datetime.now(UTC):%Y-%m-%d-%H%M}-tracing.md"
        path.write_text(text)
        print(f"written to {path}")


def measure(broker: TracedTopics, load: Load, rounds: int, messages: int) -> list[Figures]:
    found = {mode: Figures(load.name, mode) for mode in MODES}
    order = list(MODES)
    for turn in range(rounds + 1):
        # The first round warms up.
        for mode in order[turn % len(order) :] + order[: turn % len(order)]:
            produced, consumed = one_round(broker, load, mode, messages)
            if turn:
                found[mode].produced.append(produced)
                found[mode].consumed.append(consumed)
        say(f"  {load.name}: round {turn} of {rounds}")
    return list(found.values())


def one_round(broker: TracedTopics, load: Load, mode: str, messages: int) -> tuple[Sample, Sample]:
    broker.tracing = MODES[mode]
    volume = ("--count", str(messages), "--size", "100", "--partitions", "1")

    def settled(kind: str, topic: str, *arguments: str) -> tuple[Throughput, Finished]:
        result = run_throughput(broker, kind, topic, *arguments)
        time.sleep(EXPORT_SETTLES_S)
        return result

    with fresh_topic(broker, 1, Fsync.INTERVAL) as topic:
        settle()
        write = ("produce", topic, *volume, "--set", "acks=1", *load.settings)
        produced = measured(broker, lambda: settled(*write))
        consumed = measured(broker, lambda: settled("consume", topic, *volume))
    return produced, consumed


def render(machine: Machine, results: list[Figures], messages: int) -> str:
    lines = [
        "# Tracing",
        "",
        f"{machine.processor}, {machine.cores_used} cores, Linux {machine.kernel}; Python "
        f"{machine.python}; load average before {machine.load_average_before}.",
        "",
        f"One partition, {messages:,} messages a round, medians of "
        f"{len(results[0].produced)} rounds.",
        f"Ratios are to topics with tracing off; the default, 1 %, may cost {LOSS_BAR:.0%} of "
        "processor time.",
        "",
        "| load | tracing | produce msg/s | ratio | by processor time | consume msg/s | ratio "
        "| by processor time |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    off = {each.load: each for each in results if each.mode == OFF}
    for each in results:
        base = off[each.load]
        cells = [each.load, each.mode]
        for mine, other in ((each.produced, base.produced), (each.consumed, base.consumed)):
            cells += [
                f"{statistics.median(sample.value for sample in mine):,.0f}",
                f"{ratio(mine, other):.3f}",
                f"{processor_ratio(mine, other):.3f}",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def ratio(mine: list[Sample], base: list[Sample]) -> float:
    """Round by round, so that what disturbs one round disturbs both of it."""
    return statistics.median(a.value / b.value for a, b in zip(mine, base, strict=True))


def processor_ratio(mine: list[Sample], base: list[Sample]) -> float:
    pairs = zip(mine, base, strict=True)
    return statistics.median(_cost(b) / _cost(a) for a, b in pairs)


def _cost(sample: Sample) -> float:
    assert sample.broker_cpu_s_per_million is not None
    return sample.broker_cpu_s_per_million


if __name__ == "__main__":
    main()
