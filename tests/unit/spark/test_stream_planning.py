"""How far a stream goes next, and what it says when its log has changed behind it."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TypeVar, cast

import pytest
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.static.primitive import i32Timedelta
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from goqueue.client.group_facts import PartitionKey
from goqueue.client.log_cluster import LogCluster, LogTopic
from goqueue.client.log_ranges import EARLIEST
from goqueue.spark.source.options import SourceOptions, parse_source_options
from goqueue.spark.source.stream_offsets import StreamOffsets
from goqueue.spark.source.stream_planning import DataLoss, StreamPlanner

T = TypeVar("T")

TOPIC_ID = uuid.UUID(int=7)


class Logs(LogCluster):
    """Partitions of one topic, by their first and next offset."""

    def __init__(self, *ends: tuple[int, int]) -> None:
        super().__init__("127.0.0.1:1")
        self._ends = ends

    def topics(self, names: Iterable[str] | None = None) -> dict[str, LogTopic]:
        leaders = dict.fromkeys(range(len(self._ends)), 1)
        return {"orders": LogTopic(name="orders", id=TOPIC_ID, leaders=leaders)}

    def patiently(self, ask: Callable[[], T]) -> T:
        """Asked for settings alone, of which there are none: nothing was split."""
        return cast(
            "T", DescribeConfigsResponse(throttle_time=i32Timedelta.parse(timedelta()), results=())
        )

    def offsets(
        self, wanted: Mapping[PartitionKey, int], *, isolation: int
    ) -> dict[PartitionKey, int]:
        return {place: self._ends[place[1]][at != EARLIEST] for place, at in wanted.items()}


def _options(**more: str) -> SourceOptions:
    given = {"bootstrap.servers": "127.0.0.1:1", "topic": "orders", **more}
    return parse_source_options(given, streaming=True)


def _at(*offsets: int) -> StreamOffsets:
    return StreamOffsets(
        {("orders", partition): offset for partition, offset in enumerate(offsets)},
        {"orders": TOPIC_ID},
    )


@pytest.mark.parametrize("reached", [0, 10])
def test_records_that_retention_took_before_they_were_read_are_a_loss(reached: int) -> None:
    planner = StreamPlanner(Logs((50, 100)), _options())
    with pytest.raises(DataLoss, match=f"orders-0 has offsets 50 to 100.*{reached} to 100"):
        planner.ranges(_at(reached), _at(100))


def test_what_is_left_is_read_where_losses_are_allowed() -> None:
    planner = StreamPlanner(Logs((50, 100)), _options(failOnDataLoss="false"))
    (only,) = planner.ranges(_at(0), _at(100))
    assert (only.start, only.end) == (50, 100)


def test_a_new_partition_is_read_from_its_first_record_on() -> None:
    planner = StreamPlanner(Logs((0, 5), (50, 100)), _options())
    (only,) = planner.ranges(_at(5), _at(5, 100))
    assert (only.partition, only.start, only.end) == (1, 50, 100)


def test_a_limit_counts_a_new_partition_from_its_first_record_on() -> None:
    planner = StreamPlanner(Logs((0, 5), (50, 100)), _options())
    reached, read = _at(5), []
    for _ in range(5):
        end = planner.next_end(reached, planner.available(), ReadMaxRows(10))
        read += planner.ranges(reached, end)
        reached = end
    assert [(each.start, each.end) for each in read] == [
        (start, start + 10) for start in range(50, 100, 10)
    ]
    assert planner.next_end(reached, planner.available(), ReadAllAvailable()) == reached
