"""GoQueue beside a peer with another protocol: same size, window and durability, own client."""

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.brokers.goqueue import GoQueue
from bench.brokers.kafka_speaker import SHORT_LINGER, run_latency, run_throughput
from bench.brokers.own_protocol import OwnProtocolPeer
from bench.figures import Row, Sample
from bench.profiles import STEADY_RATE_PER_S, Profile
from bench.rounds import MEGABYTE, fresh_topic, measured, say, settle, take_turns

_SETTINGS: Final = ("--set", "acks=1")


class PeerSuite:
    def __init__(self, ours: GoQueue, peer: OwnProtocolPeer, profile: Profile) -> None:
        self._ours = ours
        self._peer = peer
        self._brokers: tuple[GoQueue | OwnProtocolPeer, ...] = (ours, peer)
        self._profile = profile
        self.rows: list[Row] = []

    def run(self, folder: Path) -> None:
        with ExitStack() as running:
            settle()
            start = self._row("start-up", "launch to first answer, empty folder", "s")
            for broker in self._brokers:
                place = folder / broker.name.replace(" ", "-")
                place.mkdir()
                broker.start(place)
                running.callback(broker.stop)
                start.add(broker.name, Sample(value=broker.process.start_seconds))
            for size_bytes in self._profile.peer_sizes_bytes:
                self._throughput(size_bytes)
            self._publish_latency(100)
            self._memory()

    def _row(self, section: str, label: str, unit: str, *, higher_is_better: bool = False) -> Row:
        say(f"  {section}: {label}")
        row = Row(
            section=section,
            label=label,
            unit=unit,
            higher_is_better=higher_is_better,
            peer=self._peer.name,
            fsync=f"{self._peer.comparable} / {self._peer.fsync}",
        )
        self.rows.append(row)
        return row

    def _throughput(self, size_bytes: int) -> None:
        label = f"{size_bytes} B, 1 partition or stream, none"
        count = self._profile.peer_count
        produce = self._row("produce", label, "msg/s", higher_is_better=True)
        consume = self._row("consume", label, "msg/s", higher_is_better=True)

        def measure(broker: GoQueue | OwnProtocolPeer) -> None:
            settle()
            if isinstance(broker, GoQueue):
                self._measure_ours(count, size_bytes, produce, consume)
                return
            produce.add(broker.name, measured(broker, lambda: broker.publish(count, size_bytes)))
            settle()
            consume.add(broker.name, measured(broker, lambda: broker.consume(count, size_bytes)))

        take_turns(self._brokers, self._profile.repetitions, measure, produce)
        consume.failures.update(produce.failures)

    def _measure_ours(self, count: int, size_bytes: int, produce: Row, consume: Row) -> None:
        volume = ("--count", str(count), "--size", str(size_bytes))
        with fresh_topic(self._ours, 1, self._peer.comparable) as topic:
            write = ("produce", topic, *volume, *_SETTINGS)
            sample = measured(self._ours, lambda: run_throughput(self._ours, *write))
            produce.add(self._ours.name, sample)
            settle()
            read = ("consume", topic, *volume)
            sample = measured(self._ours, lambda: run_throughput(self._ours, *read))
            consume.add(self._ours.name, sample)

    def _publish_latency(self, size_bytes: int) -> None:
        peer_latency = self._peer.publish_latency
        if peer_latency is None:
            return
        label = f"{size_bytes} B at {STEADY_RATE_PER_S:,} msg/s"
        rows = {
            point: self._row("publish latency", f"{label}, {point}", "ms")
            for point in ("p50", "p99")
        }
        seconds = self._profile.latency_seconds
        pace = ("--rate", str(STEADY_RATE_PER_S), "--seconds", str(seconds))

        def measure(broker: GoQueue | OwnProtocolPeer) -> None:
            settle()
            if isinstance(broker, GoQueue):
                with fresh_topic(broker, 1, self._peer.comparable) as topic:
                    settings = (*_SETTINGS, *SHORT_LINGER, "--size", str(size_bytes))
                    found = run_latency(broker, "publish-latency", topic, *pace, *settings)
            else:
                found = peer_latency(size_bytes, STEADY_RATE_PER_S, seconds)
            rows["p50"].add(broker.name, Sample(value=found.latency_ms.p50))
            rows["p99"].add(broker.name, Sample(value=found.latency_ms.p99))

        take_turns(self._brokers, 1, measure, rows["p50"])
        rows["p99"].failures.update(rows["p50"].failures)

    def _memory(self) -> None:
        row = self._row("memory", "after all of the above", "MB")
        for broker in self._brokers:
            row.add(broker.name, Sample(value=broker.process.resident_bytes() / MEGABYTE))
