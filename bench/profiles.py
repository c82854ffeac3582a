"""How much is measured: `quick` for a look after a change, `full` for figures to publish."""

from dataclasses import dataclass
from itertools import product
from typing import Final

from bench.brokers.kafka_speaker import Fsync


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputCase:
    size_bytes: int
    partitions: int
    acks: str
    compression: str
    count: int
    fsync: Fsync = Fsync.INTERVAL

    @property
    def label(self) -> str:
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions:,} partitions"
        return f"{self.size_bytes} B, {partitions}, acks={self.acks}, {self.compression}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    name: str
    cases: tuple[ThroughputCase, ...]
    repetitions: int
    starts: int
    latency_seconds: int
    lookups: int
    memory_rounds: int
    requests: int
    reader_messages: int
    transactions: int
    peer_count: int
    peer_sizes_bytes: tuple[int, ...]


STEADY_RATE_PER_S: Final = 10_000
MILLION: Final = 1_000_000

# The case that the 500,000 msg/s bar is about: librdkafka's defaults but for acks=1.
HEADLINE: Final = ThroughputCase(
    size_bytes=100, partitions=1, acks="1", compression="none", count=MILLION
)
HEADLINE_UNFLUSHED: Final = ThroughputCase(
    size_bytes=100, partitions=1, acks="1", compression="none", count=MILLION, fsync=Fsync.NEVER
)


def _case(size_bytes: int, partitions: int, acks: str, compression: str) -> ThroughputCase:
    # About 100 MB to 400 MB a round: seconds long on two cores, and held by the page cache.
    count = MILLION if size_bytes <= 100 else 300_000
    return ThroughputCase(
        size_bytes=size_bytes,
        partitions=partitions,
        acks=acks,
        compression=compression,
        count=count,
    )


# librdkafka stays with a partition for 10 ms, so that each gets large batches now and then. Spread
# evenly they would be requests of a few messages, which is another shape.
MANY_PARTITIONS: Final = _case(100, 1_000, "1", "none")


QUICK: Final = Profile(
    name="quick",
    cases=(
        HEADLINE,
        _case(100, 12, "all", "none"),
        _case(1000, 1, "1", "none"),
        _case(1000, 12, "all", "none"),
        _case(100, 1, "1", "lz4"),
        _case(1000, 12, "1", "zstd"),
        MANY_PARTITIONS,
    ),
    repetitions=2,
    starts=3,
    latency_seconds=5,
    lookups=1_000,
    memory_rounds=5,
    requests=30_000,
    reader_messages=200_000,
    transactions=500,
    peer_count=300_000,
    peer_sizes_bytes=(100,),
)

FULL: Final = Profile(
    name="full",
    cases=(
        *(
            _case(size_bytes, partitions, acks, compression)
            for size_bytes, partitions, acks, compression in product(
                (100, 1000), (1, 12), ("1", "all"), ("none", "lz4", "zstd")
            )
        ),
        HEADLINE_UNFLUSHED,
        MANY_PARTITIONS,
    ),
    repetitions=3,
    starts=5,
    latency_seconds=20,
    lookups=5_000,
    memory_rounds=10,
    requests=200_000,
    reader_messages=MILLION,
    transactions=5_000,
    peer_count=MILLION,
    peer_sizes_bytes=(100, 1000),
)

PROFILES: Final = {profile.name: profile for profile in (QUICK, FULL)}
