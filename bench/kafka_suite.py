"""GoQueue beside a broker of the same protocol: every measurement, one client."""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import Final

from bench.brokers.kafka_speaker import (
    SHORT_LINGER,
    Fsync,
    KafkaSpeaker,
    run_latency,
    run_throughput,
)
from bench.figures import Row, Sample
from bench.kafka_shapes import measure_shapes
from bench.kafka_wire import KafkaWire, WireError, stored_compression
from bench.load_run import LoadFailed
from bench.profiles import HEADLINE, MILLION, STEADY_RATE_PER_S, Profile, ThroughputCase
from bench.rounds import MEGABYTE, fresh_topic, measured, say, settle, take_turns

# Time for allocators and start-up work to come to rest before idle memory is read.
IDLE_REST_S: Final = 3.0
# A generator that could not keep its own schedule tells of a busy machine, not of a slow broker.
GENERATOR_LAG: Final = "client late by at most"
_SEED: Final = 20_240_101


class KafkaSuite:
    def __init__(self, ours: KafkaSpeaker, peer: KafkaSpeaker, profile: Profile) -> None:
        self._brokers = (ours, peer)
        self._peer = peer.name
        self._profile = profile
        self.rows: list[Row] = []

    def run(self, folder: Path) -> None:
        with ExitStack() as running:
            self._start_and_idle(folder, running)
            for broker in self._brokers:
                self._warm_up(broker)
            for case in self._profile.cases:
                self._throughput(case)
            measure_shapes(self._brokers, self._profile, self._shape_row)
            self._publish_latency("librdkafka defaults (linger 5 ms)", ())
            self._publish_latency("linger 1 ms", SHORT_LINGER)
            self._end_to_end()
            self._lookups()
            self._memory_under_load()

    def _row(
        self, section: str, label: str, unit: str, fsync: str, *, higher_is_better: bool = False
    ) -> Row:
        say(f"  {section}: {label}")
        row = Row(
            section=section,
            label=label,
            unit=unit,
            higher_is_better=higher_is_better,
            peer=self._peer,
            fsync=fsync,
        )
        self.rows.append(row)
        return row

    def _shape_row(self, section: str, label: str, unit: str) -> Row:
        return self._row(section, label, unit, Fsync.INTERVAL, higher_is_better=True)

    def _start_and_idle(self, folder: Path, running: ExitStack) -> None:
        """Starts on empty folders; the last start of each stays up for the rest of the suite."""
        start = self._row("start-up", "launch to first answer, empty folder", "s", "-")
        for number in range(self._profile.starts):
            settle()
            for broker in self._brokers:
                if number:
                    broker.stop()
                place = folder / f"{broker.name.replace(' ', '-')}-{number}"
                place.mkdir()
                broker.start(place)
                running.callback(broker.stop)
                start.add(broker.name, Sample(value=broker.process.start_seconds))
        idle = self._row("memory", "idle after start", "MB", "-")
        time.sleep(IDLE_REST_S)
        for broker in self._brokers:
            idle.add(broker.name, Sample(value=broker.process.resident_bytes() / MEGABYTE))

    def _warm_up(self, broker: KafkaSpeaker) -> None:
        """Unmeasured: the JVM compiles what it runs often, and should not be timed before."""
        say(f"  warm-up: {broker.name}")
        with fresh_topic(broker, HEADLINE.partitions, HEADLINE.fsync) as topic:
            run_throughput(broker, "produce", topic, *_volume(HEADLINE), *_producer(HEADLINE))
            run_throughput(broker, "consume", topic, *_volume(HEADLINE))

    def _throughput(self, case: ThroughputCase) -> None:
        produce = self._row("produce", case.label, "msg/s", case.fsync, higher_is_better=True)
        consume = self._row("consume", case.label, "msg/s", case.fsync, higher_is_better=True)

        def measure(broker: KafkaSpeaker) -> None:
            with fresh_topic(broker, case.partitions, case.fsync) as topic:
                settle()
                write = ("produce", topic, *_volume(case), *_producer(case))
                produce.add(broker.name, measured(broker, lambda: run_throughput(broker, *write)))
                _check_compression(broker, topic, case)
                settle()
                read = ("consume", topic, *_volume(case))
                consume.add(broker.name, measured(broker, lambda: run_throughput(broker, *read)))

        take_turns(self._brokers, self._profile.repetitions, measure, produce)
        consume.failures.update(produce.failures)

    def _publish_latency(self, label: str, settings: tuple[str, ...]) -> None:
        self._latency("publish latency", label, "publish-latency", ("--set", "acks=1", *settings))

    def _end_to_end(self) -> None:
        settings = ("--set", "acks=1", *SHORT_LINGER)
        self._latency("end-to-end latency", "linger 1 ms", "end-to-end", settings)

    def _latency(self, section: str, label: str, mode: str, settings: tuple[str, ...]) -> None:
        full_label = f"100 B at {STEADY_RATE_PER_S:,} msg/s, {label}"
        fsync = Fsync.INTERVAL
        rows = {
            point: self._row(section, f"{full_label}, {point}", "ms", fsync)
            for point in ("p50", "p99", "p99.9", GENERATOR_LAG)
        }
        pace = ("--rate", str(STEADY_RATE_PER_S), "--seconds", str(self._profile.latency_seconds))

        def measure(broker: KafkaSpeaker) -> None:
            with fresh_topic(broker, 1, fsync) as topic:
                settle()
                before = broker.process.cpu_seconds()
                latency = run_latency(broker, mode, topic, "--size", "100", *pace, *settings)
                cpu_seconds = broker.process.cpu_seconds() - before
            found = latency.latency_ms
            cpu = cpu_seconds / latency.messages * MILLION
            points = {
                "p50": found.p50,
                "p99": found.p99,
                "p99.9": found.p999,
                GENERATOR_LAG: latency.generator_lag_max_ms,
            }
            for point, value in points.items():
                rows[point].add(broker.name, Sample(value=value, broker_cpu_s_per_million=cpu))

        take_turns(self._brokers, self._profile.repetitions, measure, rows["p50"])
        for row in rows.values():
            row.failures.update(rows["p50"].failures)

    def _lookups(self) -> None:
        """Random places in a log of a million messages, over the wire and one at a time."""
        for batch_messages, kinds in LOOKUPS.items():
            rows = {
                (kind, point): self._row(
                    "look-up",
                    f"{kind}, {MILLION:,} messages in batches of {batch_messages:,}, {point}",
                    "ms",
                    Fsync.INTERVAL,
                )
                for kind in kinds
                for point in ("p50", "p99")
            }
            self._lookups_in_batches(batch_messages, kinds, rows)

    def _lookups_in_batches(
        self, batch_messages: int, kinds: dict[str, "TimedLookup"], rows: dict[tuple[str, str], Row]
    ) -> None:
        first = next(iter(rows.values()))

        def measure(broker: KafkaSpeaker) -> None:
            with fresh_topic(broker, 1, Fsync.INTERVAL) as topic:
                batches = ("--set", f"batch.num.messages={batch_messages}")
                write = (topic, *_volume(HEADLINE), *_producer(HEADLINE), *batches)
                run_throughput(broker, "produce", *write)
                for kind, look in kinds.items():
                    chance = random.Random(_SEED)
                    with KafkaWire(broker.port) as wire:
                        times_ms = [look(wire, topic, chance) for _ in range(self._profile.lookups)]
                    cuts = quantiles(times_ms, n=100)
                    rows[kind, "p50"].add(broker.name, Sample(value=cuts[49]))
                    rows[kind, "p99"].add(broker.name, Sample(value=cuts[98]))

        take_turns(self._brokers, 1, measure, first)
        for row in rows.values():
            row.failures.update(first.failures)

    def _memory_under_load(self) -> None:
        """Resident memory after each round of a million messages in and out."""
        row = self._row("memory", f"after each {MILLION:,} messages in and out", "MB", "-")

        def measure(broker: KafkaSpeaker) -> None:
            case = HEADLINE
            with fresh_topic(broker, case.partitions, case.fsync) as topic:
                run_throughput(broker, "produce", topic, *_volume(case), *_producer(case))
                run_throughput(broker, "consume", topic, *_volume(case))
            row.add(broker.name, Sample(value=broker.process.resident_bytes() / MEGABYTE))

        take_turns(self._brokers, self._profile.memory_rounds, measure, row)


def _volume(case: ThroughputCase) -> tuple[str, ...]:
    return (
        *("--count", str(case.count), "--size", str(case.size_bytes)),
        *("--partitions", str(case.partitions)),
    )


def _producer(case: ThroughputCase) -> tuple[str, ...]:
    return ("--set", f"acks={case.acks}", "--set", f"compression.type={case.compression}")


def _check_compression(broker: KafkaSpeaker, topic: str, case: ThroughputCase) -> None:
    """librdkafka leaves a compression out, without a word, where it thinks a broker too old."""
    stored = stored_compression(broker.port, topic, case.partitions)
    if stored != case.compression:
        raise LoadFailed(f"asked for {case.compression}, the client sent {stored}")


def _time_fetch(wire: KafkaWire, topic: str, chance: random.Random) -> float:
    offset = chance.randrange(MILLION)
    started = time.perf_counter()
    wire.fetch_batch_at(topic, offset)
    return (time.perf_counter() - started) * 1000


def _time_list_offsets(wire: KafkaWire, topic: str, chance: random.Random) -> float:
    timestamp_ms = wire.fetch_batch_at(topic, chance.randrange(MILLION)).base_timestamp_ms
    started = time.perf_counter()
    offset = wire.offset_for_time(topic, timestamp_ms)
    elapsed_ms = (time.perf_counter() - started) * 1000
    if not 0 <= offset < MILLION:
        raise WireError(f"time stamp {timestamp_ms} found at offset {offset}")
    return elapsed_ms


TimedLookup = Callable[[KafkaWire, str, random.Random], float]

# By messages in a batch. Small batches give the log ten thousand places to look among; in large
# ones (librdkafka's default) a time stamp must also be found within its batch.
LOOKUPS: Final[dict[int, dict[str, TimedLookup]]] = {
    100: {"by offset (Fetch)": _time_fetch, "by time stamp (ListOffsets)": _time_list_offsets},
    10_000: {"by time stamp (ListOffsets)": _time_list_offsets},
}
