"""How long a writer goes on while its broker is in trouble."""

import datetime
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.produce.v12.response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kio.schema.types import ProducerId, TopicName
from kio.static.primitive import i16, i32, i32Timedelta, i64

from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.client.log_writer import LogWriter
from goqueue.client.record_block import RecordBlock
from goqueue.client.writing_cluster import WritingCluster

# More than Python's stack is deep.
LOST_ANSWERS = 2_000
NO_TIME = i32Timedelta.parse(datetime.timedelta())
BLOCK = RecordBlock("orders", 0, b"", 1, 0, 0)
STORED = TopicProduceResponse(
    name=TopicName("orders"),
    partition_responses=(
        PartitionProduceResponse(
            index=i32(0), error_code=ErrorCode.none, base_offset=i64(0), record_errors=()
        ),
    ),
)


class LosingBroker:
    """Takes requests, and loses its answers for a while."""

    def __init__(self, *, lost_answers: int, answers: tuple[TopicProduceResponse, ...]) -> None:
        self.requests = 0
        self.lost_answers = lost_answers
        self.answers = answers

    def call(self, *_: Any) -> InitProducerIdResponse:
        return InitProducerIdResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            producer_id=ProducerId(1),
            producer_epoch=i16(0),
        )

    def send(self, _: Any) -> None:
        self.requests += 1

    def receive(self, _: Any) -> ProduceResponse:
        if self.requests <= self.lost_answers:
            raise BrokerUnreachable("the answer was lost")
        return ProduceResponse(responses=self.answers, throttle_time=NO_TIME)


def _writer(monkeypatch: pytest.MonkeyPatch, broker: LosingBroker) -> LogWriter:
    monkeypatch.setattr(WritingCluster, "leader", lambda *_: broker)
    monkeypatch.setattr(WritingCluster, "coordinator", lambda *_: broker)
    monkeypatch.setattr("goqueue.client.patience.time.sleep", lambda _: None)
    return LogWriter("127.0.0.1:1", delivery_timeout_ms=3_600_000)


def test_a_long_time_out_is_used_up_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = LosingBroker(lost_answers=LOST_ANSWERS, answers=(STORED,))
    writer = _writer(monkeypatch, broker)
    writer.send([BLOCK])
    writer.flush()
    assert broker.requests == LOST_ANSWERS + 1


def test_what_an_answer_leaves_out_is_not_taken_for_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = _writer(monkeypatch, LosingBroker(lost_answers=0, answers=()))
    writer.send([BLOCK])
    with pytest.raises(RequestRefused, match="does not say whether it stored"):
        writer.flush()
