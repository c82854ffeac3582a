"""What a Kafka client may send after connecting, with all that the broker then does.

An input is a stream: frames with their lengths before them.
"""

from functools import cache
from typing import Any, Final

from goqueue.doors.kafka.connection import Connection
from tests.fuzz.fuzzed_broker import FuzzedBroker, SocketlessTransport
from tests.fuzz.target import Target, Verdict

_broker = cache(FuzzedBroker)


def run(data: bytes) -> Verdict:
    def feed(connection: Connection, transport: SocketlessTransport) -> None:
        rest = memoryview(data)
        while rest and transport.is_reading and not transport.is_closed:
            room = connection.get_buffer(-1)
            piece = rest[: len(room)]
            room[: len(piece)] = piece
            connection.buffer_updated(len(piece))
            rest = rest[len(piece) :]

    return len(_broker().exchange(_connect, feed))


def _connect(broker: FuzzedBroker) -> Any:
    return broker.kafka._connection()


TARGET: Final = Target(
    name="kafka_door",
    promise="a stream of frames is answered or its connection closed; no request fails inside",
    run=run,
    # Now and then a new broker is part of it.
    cpu_ms_max=2_000,
    memory_mb_max=128,
    has_state=True,
    close=lambda: _broker().close(),
)
