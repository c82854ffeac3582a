"""A connection without a socket, and operations that finish when the test says so."""

import asyncio
import socket
import struct
from types import SimpleNamespace
from typing import Any, cast

from goqueue.doors.kafka.call_room import CallRoom
from goqueue.doors.kafka.connection import Connection
from goqueue.doors.kafka.fetch_sessions import FetchSessions
from goqueue.doors.kafka.frame_reader import SCRATCH_BYTES
from goqueue.doors.kafka.handlers import api_versions
from goqueue.doors.kafka.open_connections import OpenConnections
from goqueue.doors.kafka.operation import DoorServices, Operation, RequestContext
from goqueue.doors.kafka.request_limits import RequestLimits
from goqueue.doors.kafka.request_memory import RequestMemory
from goqueue.doors.kafka.share_sessions import ShareSessions
from goqueue.doors.kafka.turn import Turn
from goqueue.model.broker_config import broker_config
from goqueue.service.needs import OPEN
from goqueue.service.tracing import TracingService

PRODUCE, METADATA, FETCH = 0, 3, 1


class FakeTransport:
    def __init__(self) -> None:
        self.written = b""
        self.write_count = 0
        self.is_closed = False
        self.is_reading = True
        # From how many bytes on the socket says that there are some.
        self.low_waters: list[int] = []

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("10.1.2.3", 4711), "socket": self}.get(name)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self.low_waters.append(value)

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def writelines(self, chunks: Any) -> None:
        assert not self.is_closed
        self.written += b"".join(chunks)
        self.write_count += 1

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Script:
    """Operations whose handlers wait for the test: Produce overlaps, Metadata does not."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.finish: dict[int, asyncio.Future[Any]] = {}
        self._waiting: list[tuple[asyncio.Future[Any], bool]] = []

    async def _run(self, context: RequestContext, request: Any) -> Any:
        self.started.append(context.correlation_id)
        future = asyncio.get_running_loop().create_future()
        self.finish[context.correlation_id] = future
        self._waiting.append((future, hasattr(request, "acks")))
        return await future

    def take_waiting(self) -> list[tuple["asyncio.Future[Any]", bool]]:
        """What runs now and was not taken before, each with whether it is a Produce."""
        taken, self._waiting = self._waiting, []
        return taken

    def operations(self) -> dict[int, Operation]:
        return {
            METADATA: Operation(
                api_key=METADATA,
                name="Metadata",
                min_version=0,
                max_version=1,
                handle=self._run,
                needs=OPEN,
            ),
            PRODUCE: Operation(
                api_key=PRODUCE,
                name="Produce",
                min_version=3,
                max_version=9,
                handle=self._run,
                needs=OPEN,
                overlaps=True,
                carries_records=True,
            ),
            FETCH: Operation(
                api_key=FETCH,
                name="Fetch",
                min_version=4,
                max_version=4,
                handle=self._run,
                needs=OPEN,
                waits=True,
            ),
            18: api_versions.OPERATION,
        }


class Peer:
    def __init__(self, **settings: str) -> None:
        self.script = Script()
        texts = {name.replace("_", "."): text for name, text in settings.items()}
        config = broker_config(texts)
        self.memory = RequestMemory(config.queued_max_request_bytes, lambda: tuple(self.open))
        self.services = DoorServices(
            service=cast(
                Any,
                SimpleNamespace(
                    tracing=TracingService,
                    client_metrics=SimpleNamespace(are_wanted=False),
                    quotas=SimpleNamespace(
                        ledger=SimpleNamespace(version=0),
                        connected=lambda _address: 0,
                        of_client=lambda _caller: None,
                        joined=lambda _principal: None,
                        left=lambda _principal: None,
                    ),
                    share_groups=SimpleNamespace(connection_lost=lambda _ended: None),
                ),
            ),
            config=config,
            operations=self.script.operations(),
            fetch_sessions=FetchSessions(1),
            memory=self.memory,
            call_room=CallRoom(RequestMemory(config.queued_max_request_bytes)),
            limits=RequestLimits(config, self.script.operations()),
            share_sessions=ShareSessions(1, lambda _: None),
            sasl=cast(Any, SimpleNamespace(of=lambda _connection: None)),
        )
        self.open: OpenConnections[Connection] = OpenConnections(
            config.max_connections, limit_per_host=config.max_connections_per_ip
        )
        self.turn = Turn()
        self.connection, self.transport = self.connect()

    def connect(self) -> tuple[Connection, FakeTransport]:
        scratch = memoryview(bytearray(SCRATCH_BYTES))
        connection = Connection(self.services, self.memory, scratch, self.open, self.turn)
        transport = FakeTransport()
        connection.connection_made(cast(asyncio.BaseTransport, transport))
        return connection, transport

    def send(self, data: bytes) -> None:
        """As a socket would: into whatever buffer the connection offers, while it reads."""
        while data and self.transport.is_reading and not self.transport.is_closed:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self.connection.buffer_updated(count)

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    def answers(self) -> list[int]:
        """Correlation ids of the answers written so far."""
        ids, data = [], self.transport.written
        while data:
            size, correlation_id = struct.unpack_from(">ii", data)
            ids.append(correlation_id)
            data = data[4 + size :]
        return ids

    async def finish(self, correlation_id: int, answer: Any = None) -> None:
        self.script.finish[correlation_id].set_result(answer)
        await self.settle()


def frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, correlation_id, 2) + b"me"
    return struct.pack(">i", len(header) + len(body)) + header + body


def metadata(correlation_id: int) -> bytes:
    return frame(METADATA, 1, correlation_id, struct.pack(">i", -1))


def produce(correlation_id: int, padding: int = 0) -> bytes:
    transactional_id = struct.pack(">h", padding) + b"x" * padding
    return frame(PRODUCE, 3, correlation_id, transactional_id + struct.pack(">hii", 1, 1000, 0))


METADATA_ANSWER = {"brokers": (), "topics": (), "controller_id": 0}
PRODUCE_ANSWER = {"responses": ()}
