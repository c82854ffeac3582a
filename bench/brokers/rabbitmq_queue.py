"""RabbitMQ with a durable queue: messages confirmed, and each acknowledged on its own."""

import re
from typing import Final

from bench.artifacts import PERF_TEST_VERSION
from bench.brokers.rabbitmq import RabbitMq
from bench.load_run import Finished, Latency, LoadFailed, Percentiles, Throughput

# As many as the members of a share group may have of one partition (Kafka's default).
UNACKNOWLEDGED: Final = 2_000
UNCONFIRMED: Final = 10_000
DRAIN_SECONDS: Final = 5
_CONSUMER_LATENCY: Final = re.compile(
    r"consumer latency min/median/75th/95th/99th (\d+)/(\d+)/(\d+)/(\d+)/(\d+) "
)


class RabbitMqQueue(RabbitMq):
    generator = f"PerfTest {PERF_TEST_VERSION}, confirms, every message acknowledged on its own"

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.name = f"RabbitMQ {kind} queue"
        self.fsync = "before the confirm" if kind == "quorum" else "before the confirm, batched"

    def fill(self, count: int, size_bytes: int) -> Finished:
        self._queues += 1
        return self._perf_test(
            *("--producers", "1", "--consumers", "0", "--pmessages", str(count)),
            *("--size", str(size_bytes), *self._queue(), "--confirm", str(UNCONFIRMED)),
        )

    def drain(self, count: int, size_bytes: int, consumers: int) -> tuple[Throughput, Finished]:
        """For a while: consumers that stop by count keep what they have not acknowledged."""
        finished = self._perf_test(
            *("--producers", "0", "--consumers", str(consumers), "--time", str(DRAIN_SECONDS)),
            *("--size", str(size_bytes), "--queue", f"bench-{self._queues}", "--predeclared"),
            *("--qos", str(UNACKNOWLEDGED)),
        )
        rate = self._rate(finished, "receiving", count)
        received = int(count / rate.seconds * DRAIN_SECONDS)
        if received >= count:
            raise LoadFailed(f"the queue of {count} messages was empty within {DRAIN_SECONDS} s")
        return Throughput(messages=received, seconds=DRAIN_SECONDS), finished

    def delivery_latency(self, size_bytes: int, rate_per_s: int, seconds: int) -> Latency:
        self._queues += 1
        finished = self._perf_test(
            *("--producers", "1", "--consumers", "1", "--rate", str(rate_per_s)),
            *("--time", str(seconds), "--size", str(size_bytes), "--qos", str(UNACKNOWLEDGED)),
            *(*self._queue(), "--confirm", str(UNCONFIRMED)),
        )
        found = _CONSUMER_LATENCY.findall(finished.output)
        if not found:
            raise LoadFailed("PerfTest printed no consumer latency")
        _, median_us, _, _, p99_us = map(int, found[-1])
        nothing = float("nan")
        points = Percentiles(p50=median_us / 1000, p99=p99_us / 1000, p999=nothing, max=nothing)
        return Latency(messages=rate_per_s * seconds, latency_ms=points)

    def _queue(self) -> tuple[str, ...]:
        return (
            *("--queue", f"bench-{self._queues}", "--auto-delete", "false"),
            *("--flag", "persistent", "--queue-args", f"x-queue-type={self.kind}"),
        )
