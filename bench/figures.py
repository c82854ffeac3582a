"""The figures of a run: what one broker did, and two brokers side by side."""

from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One round on one broker."""

    value: float
    broker_cpu_s_per_million: float | None = None
    client_cpu_s_per_million: float | None = None
    broker_resident_mb: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement on GoQueue and a peer, in alternating rounds."""

    section: str
    label: str
    unit: str
    higher_is_better: bool
    peer: str
    fsync: str
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, broker: str, sample: Sample) -> None:
        self.samples.setdefault(broker, []).append(sample)

    def value(self, broker: str) -> float | None:
        samples = self.samples.get(broker)
        if not samples or broker in self.failures:
            return None
        return median(sample.value for sample in samples)

    def spread(self, broker: str) -> tuple[float, float] | None:
        samples = self.samples.get(broker)
        if not samples:
            return None
        return min(sample.value for sample in samples), max(sample.value for sample in samples)

    def cpu(self, broker: str) -> float | None:
        known = [
            sample.broker_cpu_s_per_million
            for sample in self.samples.get(broker, ())
            if sample.broker_cpu_s_per_million is not None
        ]
        return median(known) if known else None

    def ratio(self) -> float | None:
        """GoQueue's figure divided by the peer's."""
        ours, theirs = self.value(GOQUEUE), self.value(self.peer)
        return ours / theirs if ours is not None and theirs else None


GOQUEUE = "GoQueue"
