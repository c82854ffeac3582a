"""Pages of a partition with transactions, between times, against a list of what was written."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.node import Node
from goqueue.broker.partitions.admission import append_now
from goqueue.broker.partitions.partition import Partition
from goqueue.model.broker_config import broker_config
from goqueue.model.control import Marker, MarkerType
from goqueue.model.log import PageRequest
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE

# Markers have the time at which they are written, messages any.
PLAIN, PRODUCERS = 0, (1, 2)
TIMES = st.integers(1, 6)


class Write(NamedTuple):
    """Messages of a producer, or the end of its transaction."""

    producer: int
    times_ms: tuple[int, ...] = ()
    end: MarkerType | None = None


MESSAGES = st.builds(
    Write,
    st.sampled_from((PLAIN, *PRODUCERS)),
    st.lists(TIMES, min_size=1, max_size=3).map(tuple),
)
ENDS = st.builds(
    Write, st.sampled_from(PRODUCERS), end=st.sampled_from((MarkerType.ABORT, MarkerType.COMMIT))
)
WRITES = st.lists(st.one_of(MESSAGES, ENDS), min_size=4, max_size=20)


@dataclass
class Written:
    """The model: each message with its time, and whose transaction it is of."""

    partition: Partition
    times_ms: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[int]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    end: int = 0
    sequences: dict[int, int] = field(default_factory=dict)

    def write(self, write: Write) -> None:
        producer = write.producer
        if write.end is not None:
            if producer not in self.open:
                return
            self.partition.append_marker(
                Marker(write.end, 0), producer_id=producer, producer_epoch=0, bumps_epoch=False
            )
            offsets = self.open.pop(producer)
            if write.end is MarkerType.ABORT:
                self.aborted.update(offsets)
            self.end += 1
            return
        sequence = self.sequences.get(producer, 0)
        batch = encode_records(
            [NewRecord(value=b"%d" % time_ms, timestamp_ms=time_ms) for time_ms in write.times_ms],
            now_ms=1,
            is_transactional=bool(producer),
            producer_id=producer or -1,
            producer_epoch=0 if producer else -1,
            base_sequence=sequence if producer else -1,
        )
        append_now(self.partition, batch)
        offsets = [self.end + count for count in range(len(write.times_ms))]
        self.times_ms.update(zip(offsets, write.times_ms, strict=True))
        if producer:
            self.open.setdefault(producer, []).extend(offsets)
            self.sequences[producer] = sequence + len(offsets)
        self.end += len(offsets)

    def messages(self, since_ms: int | None, until_ms: int | None) -> list[int]:
        stable = min((offsets[0] for offsets in self.open.values()), default=self.end)
        found = [
            offset for offset in self.times_ms if offset < stable and offset not in self.aborted
        ]
        late = [offset for offset in found if until_ms and self.times_ms[offset] >= until_ms]
        begin = [offset for offset in found if not since_ms or self.times_ms[offset] >= since_ms]
        if not begin:
            return []
        return [offset for offset in found if begin[0] <= offset and (not late or offset < late[0])]


class Brokers:
    def __init__(self, folder: Path) -> None:
        self.runner = asyncio.Runner()
        self.node: Node = self.runner.run(
            Node.open(broker_config({"data.dir": str(folder / "data")}))
        )
        self.runner.run(self.node.announce("127.0.0.1", 9092, 8080))
        self._topics = 0

    def new_partition(self) -> Partition:
        self._topics += 1
        made = BrokerService(self.node).topics.create(
            ANYONE, NewTopic(name=f"t{self._topics}", partitions=1)
        )
        self.runner.run(made)
        return self.node.partition(f"t{self._topics}", 0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    brokers = Brokers(tmp_path_factory.mktemp("pages"))
    with brokers.runner:
        yield brokers
        brokers.runner.run(brokers.node.close())


async def pages(node: Node, topic: str, first: PageRequest) -> list[int]:
    """As docs/http.md has clients do it."""
    log = BrokerService(node).log
    wanted, found = first, list[int]()
    while True:
        page = await log.read_page(ANYONE, topic, 0, wanted)
        found += (record.offset for record in page.records)
        is_read = page.until_offset is not None and page.next_offset >= page.until_offset
        if is_read or page.next_offset == wanted.offset:
            return found
        wanted = PageRequest(
            offset=page.next_offset,
            until_ms=first.until_ms,
            limit=first.limit,
            max_bytes=first.max_bytes,
        )


@settings(deadline=None, max_examples=60)
@given(
    writes=WRITES,
    since_ms=st.none() | TIMES,
    until_ms=st.none() | TIMES,
    limit=st.integers(1, 5),
)
def test_pages_have_all_messages_of_a_time_and_no_others(
    broker: Brokers, writes: list[Write], since_ms: int | None, until_ms: int | None, limit: int
) -> None:
    async def scenario() -> list[int]:
        for write in writes:
            written.write(write)
        return await pages(broker.node, written.partition.name.topic, first)

    written = Written(broker.new_partition())
    first = PageRequest(until_ms=until_ms, limit=limit, max_bytes=100)
    if since_ms is not None:
        first = PageRequest(
            since_ms=since_ms, until_ms=until_ms, limit=limit, max_bytes=first.max_bytes
        )
    assert broker.runner.run(scenario()) == written.messages(since_ms, until_ms)
