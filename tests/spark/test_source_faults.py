"""A task's reading while brokers come and go, and limits per trigger: no Spark session."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from goqueue.client.errors import BrokerUnreachable
from goqueue.client.fetch_answer import read_fetch_answer
from goqueue.client.http_address import find_http_url
from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import LogRange
from goqueue.client.log_reader import FetchedBatches, read_range
from goqueue.model.errors import OffsetOutOfRange, UnknownTopic, UnknownTopicId
from goqueue.spark.source.range_planning import split_ranges
from goqueue.spark.source.stream_planning import limited
from goqueue.testing import ServerProcess

COUNT = 3_000
# Small fetches, so that a range takes many.
FETCH_BYTES = 4_096


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, "--set", "num.partitions=1") as running:
        producer = Producer(
            {"bootstrap.servers": running.bootstrap_servers, "batch.num.messages": 50}
        )
        for number in range(COUNT):
            producer.produce("log", b"%d" % number)
        assert producer.flush(30) == 0
        yield running


def whole_range(cluster: LogCluster, **changes: int) -> LogRange:
    topic = cluster.topics(["log"])["log"]
    ends = {"start": 0, "end": COUNT} | changes
    return LogRange(topic="log", topic_id=topic.id, partition=0, **ends)


def counted(fetches: Iterator[FetchedBatches]) -> int:
    return sum(batch.header.record_count for each in fetches for batch in each.batches)


def test_a_range_is_read_over_a_crash(server: ServerProcess) -> None:
    with LogCluster(server.bootstrap_servers) as cluster:
        fetches = read_range(cluster, whole_range(cluster), fetch_bytes=FETCH_BYTES)
        offsets: list[int] = []
        for number, fetched in enumerate(fetches):
            for _, header in fetched.batches:
                offsets += range(header.base_offset, header.next_offset)
            if number == 3:
                server.sigkill()
                starter = threading.Thread(target=server.start)
                starter.start()
        starter.join()
    assert offsets == list(range(COUNT))


def test_a_broker_that_stays_down_is_an_error(server: ServerProcess) -> None:
    with LogCluster(server.bootstrap_servers, patience_seconds=1) as cluster:
        fetches = read_range(cluster, whole_range(cluster), fetch_bytes=FETCH_BYTES)
        next(fetches)
        server.sigkill()
        started = time.monotonic()
        with pytest.raises(BrokerUnreachable, match="no broker answers"):
            counted(fetches)
        assert time.monotonic() - started < 15
    started = time.monotonic()
    with LogCluster(server.bootstrap_servers) as cluster, pytest.raises(BrokerUnreachable):
        cluster.topics()
    assert time.monotonic() - started < 5, "who never reached a broker does not wait for one"


def test_what_is_not_there_is_named(server: ServerProcess) -> None:
    assert find_http_url(server.bootstrap_servers) == server.http_url
    with LogCluster(server.bootstrap_servers) as cluster:
        wanted = whole_range(cluster, start=COUNT + 5, end=COUNT + 6)
        with pytest.raises(OffsetOutOfRange, match=f"log-0 no longer has offset {COUNT + 5}"):
            counted(read_range(cluster, wanted))
        with pytest.raises(UnknownTopic, match="there is no topic 'nothing'"):
            cluster.topics(["log", "nothing"])
        other = LogRange(
            topic="log", topic_id=type(wanted.topic_id)(int=7), partition=0, start=0, end=1
        )
        with pytest.raises(UnknownTopicId, match="was deleted"):
            counted(read_range(cluster, other))
        parts = split_ranges([whole_range(cluster)], min_partitions=7, max_records=0)
        assert sum(counted(read_range(cluster, part)) > 0 for part in parts) == 7


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\1", b"\0\0\0\1\0" + b"\xff" * 60])
def test_an_answer_that_is_not_kafkas(frame: bytes) -> None:
    with pytest.raises(BrokerUnreachable, match="another language"):
        read_fetch_answer(memoryview(frame), 1, "host:1")


def test_a_limit_is_shared_by_how_far_partitions_are_behind() -> None:
    start = {("t", 0): 0, ("t", 1): 100, ("t", 2): 5}
    goal = {("t", 0): 900, ("t", 1): 200, ("t", 2): 5}
    end = limited(start, goal, 100)
    assert end == {("t", 0): 90, ("t", 1): 110, ("t", 2): 5}
    assert sum(limited(start, goal, 7)[place] - start[place] for place in goal) == 7
    assert limited(start, goal, 5_000) == goal


def test_ranges_are_split_without_gap_or_overlap() -> None:
    import uuid

    def part(start: int, end: int, partition: int = 0) -> LogRange:
        return LogRange(
            topic="t", topic_id=uuid.UUID(int=1), partition=partition, start=start, end=end
        )

    for ranges, least, most in [
        ([part(0, 10)], 3, 0),
        ([part(5, 1005), part(0, 3, 1)], 8, 0),
        ([part(0, 10)], 0, 3),
        ([part(0, 2)], 50, 1),
        ([part(0, 100), part(0, 100, 1), part(0, 100, 2)], 4, 0),
    ]:
        parts = split_ranges(ranges, min_partitions=least, max_records=most)
        covered = [(p.partition, o) for p in parts for o in range(p.start, p.end)]
        assert covered == [(r.partition, o) for r in ranges for o in range(r.start, r.end)]
        assert all(p.start < p.end for p in parts)
        assert len(parts) >= min(least, len(covered))
        assert not most or all(p.end - p.start <= most for p in parts)
