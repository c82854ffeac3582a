"""How long a writer goes on while its broker is in trouble."""

import datetime
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.produce.v12.response import ProduceResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16, i32Timedelta

from goqueue.client.errors import BrokerUnreachable
from goqueue.client.log_writer import LogWriter
from goqueue.client.record_block import RecordBlock
from goqueue.client.writing_cluster import WritingCluster

# More than Python's stack is deep.
LOST_ANSWERS = 2_000
NO_TIME = i32Timedelta.parse(datetime.timedelta())


class LosingBroker:
    """Takes requests, and loses its answers for a while."""

    def __init__(self) -> None:
        self.requests = 0

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
        if self.requests <= LOST_ANSWERS:
            raise BrokerUnreachable("the answer was lost")
        return ProduceResponse(responses=(), throttle_time=NO_TIME)


def test_a_long_time_out_is_used_up_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = LosingBroker()
    monkeypatch.setattr(WritingCluster, "leader", lambda *_: broker)
    monkeypatch.setattr(WritingCluster, "coordinator", lambda *_: broker)
    monkeypatch.setattr("goqueue.client.patience.time.sleep", lambda _: None)
    writer = LogWriter("127.0.0.1:1", delivery_timeout_ms=3_600_000)
    writer.send([RecordBlock("orders", 0, b"", 1, 0, 0)])
    writer.flush()
    assert broker.requests == LOST_ANSWERS + 1
