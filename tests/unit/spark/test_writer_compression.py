"""What is compressed: not what asks GoQueue for something, for that could not be seen."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from goqueue.client.log_writer import LogWriter
from goqueue.client.record_block import RecordBlock
from goqueue.client.writing_cluster import TopicToWrite
from goqueue.spark.sink.options import parse_options
from goqueue.spark.sink.task import TaskWriter

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Kept(LogWriter):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")
        self.blocks: list[RecordBlock] = []

    def topic(self, name: str) -> TopicToWrite:
        return TopicToWrite(name, (1,), 1_048_588)

    def send(self, blocks: Sequence[RecordBlock]) -> None:
        self.blocks += blocks


@pytest.mark.parametrize(
    ("headers", "is_compressed"),
    [
        ([None, []], True),
        ([[{"key": "trace", "value": b"goqueue-priority"}], []], True),
        ([[], [{"key": "goqueue-priority", "value": b"critical"}]], False),
        ([None, [{"key": "a", "value": None}, {"key": "goqueue-ttl-ms", "value": b"5"}]], False),
    ],
)
def test_headers_for_goqueue_are_not_compressed(headers: list[object], is_compressed: bool) -> None:
    given = {"bootstrap.servers": "127.0.0.1:1", "topic": "orders", "compression.type": "gzip"}
    kept = Kept()
    rows = {"value": pa.array([b"v" * 1_000] * 2), "headers": pa.array(headers, HEADERS)}
    task = TaskWriter(kept, parse_options(given, is_stream=False), task=0)
    task.write([pa.RecordBatch.from_pydict(rows)])
    assert [bool(block.compression) for block in kept.blocks] == [is_compressed]
