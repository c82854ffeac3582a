"""Peers with a protocol of their own, each driven by a load generator made for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from bench.brokers.kafka_speaker import Fsync
from bench.child_process import ChildProcess
from bench.load_run import Finished, Latency, Throughput

# Messages on their way at once, for every peer: librdkafka's largest batch (batch.num.messages).
WINDOW_MESSAGES: Final = 10_000


class OwnProtocolPeer(Protocol):
    name: str
    fsync: str
    comparable: Fsync
    generator: str
    process: ChildProcess

    def version(self) -> str: ...
    def start(self, folder: Path) -> None: ...
    def stop(self) -> None: ...
    def publish(self, count: int, size_bytes: int) -> tuple[Throughput, Finished]: ...
    def consume(self, count: int, size_bytes: int) -> tuple[Throughput, Finished]: ...

    @property
    def publish_latency(self) -> Callable[[int, int, int], Latency] | None:
        """(size_bytes, rate_per_s, seconds); None where the generator cannot hold a rate."""
