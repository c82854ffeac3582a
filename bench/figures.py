"""The figures of a run: what one broker did, and two brokers side by side."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

GOQUEUE: Final = "GoQueue"

# A client and a broker that wait for each other use less of the machine than two that do not, so
# some difference is theirs; beyond this, other programs had a share in it.
EVEN_WITHIN: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One round on one broker."""

    value: float
    broker_cpu_s_per_million: float | None = None
    client_cpu_s_per_million: float | None = None
    broker_resident_mb: float | None = None
    # Processor time of broker and client by wall time: how much of the machine the round got.
    cores_used: float | None = None


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
        samples = self.samples.get(broker, ())
        return _median_known(sample.broker_cpu_s_per_million for sample in samples)

    def cores(self, broker: str) -> float | None:
        return _median_known(sample.cores_used for sample in self.samples.get(broker, ()))

    def is_even(self) -> bool:
        """Whether every round of both sides got about as much of the machine."""
        used = [
            sample.cores_used
            for samples in self.samples.values()
            for sample in samples
            if sample.cores_used is not None
        ]
        return not used or max(used) <= EVEN_WITHIN * min(used)

    def ratio(self) -> float | None:
        """GoQueue's figure divided by the peer's."""
        ours, theirs = self.value(GOQUEUE), self.value(self.peer)
        return ours / theirs if ours is not None and theirs else None


def _median_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
