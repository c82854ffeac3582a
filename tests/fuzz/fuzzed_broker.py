"""A whole broker in this process, whose doors get bytes from connections without a socket.

Something is wrong if a request ends in an error that nobody expected: the broker writes a line of
level ERROR then, or the event loop is told. A broker serves some hundred inputs and is replaced by
a new one, so that what earlier inputs have made does not add up.
"""

import asyncio
import atexit
import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from goqueue.broker.node import Node
from goqueue.broker.schemas.jobs import Job, JobAnswer
from goqueue.broker.schemas.process import carry_out
from goqueue.broker.schemas.worker_process import MEMORY_MAX_BYTES
from goqueue.doors.http import HttpDoor
from goqueue.doors.kafka import KafkaDoor
from goqueue.doors.registry import RegistryDoor
from goqueue.doors.sqs import SqsDoor
from goqueue.doors.web.mounting import Mount
from goqueue.model.broker_config import broker_config
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.access.canaries import FIFO_QUEUE, SUBJECT, TOPIC, URL, sqs
from tests.callers import ANYONE
from tests.fuzz.target import Finding
from tests.publishing import publish

INPUTS_PER_BROKER: Final = 400
# Turns of the event loop in which most requests are answered, and what the others get after them:
# threads may have to read or write, and long polls wait for nothing at all.
TURNS: Final = 50
WAIT_SECONDS: Final = 0.03
_SETTINGS: Final = {
    "kafka.port": "0",
    "http.port": "0",
    "num.partitions": "1",
    "max.partitions.per.topic": "4",
    "topic.fsync.policy": "never",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class Connection(Protocol):
    def connection_made(self, transport: Any) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class SocketlessTransport:
    """Takes what is written, and never has anything to read."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = False
        self.is_reading = True

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 4711) if name in ("peername", "sockname") else None

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        """Nothing is ever held."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, chunks: Any) -> None:
        self.written += b"".join(chunks)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


class _Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


class FuzzedBroker:
    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._complaints = _Complaints()
        self._left = 0
        self._folder: Path | None = None
        self._node: Node
        self.kafka: KafkaDoor
        self.http: HttpDoor

    def exchange(
        self,
        connect: Callable[["FuzzedBroker"], Connection],
        feed: Callable[[Any, SocketlessTransport], None],
    ) -> bytes:
        """What the broker answers to what `feed` gives to a new connection."""
        if not self._left:
            self._runner.run(self._replace())
            self._left = INPUTS_PER_BROKER
        self._left -= 1
        self._complaints.lines.clear()
        logging.getLogger().addHandler(self._complaints)
        try:
            answer = self._runner.run(self._exchange(connect, feed))
        finally:
            logging.getLogger().removeHandler(self._complaints)
        if self._complaints.lines:
            raise Finding("\n".join(self._complaints.lines))
        return answer

    async def _exchange(
        self,
        connect: Callable[["FuzzedBroker"], Connection],
        feed: Callable[[Any, SocketlessTransport], None],
    ) -> bytes:
        connection, transport = connect(self), SocketlessTransport()
        connection.connection_made(transport)
        feed(connection, transport)
        for _ in range(TURNS):
            if transport.written or transport.is_closed:
                break
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(WAIT_SECONDS)
        connection.connection_lost(None)
        for _ in range(3):
            await asyncio.sleep(0)
        return bytes(transport.written)

    # --- brokers ----------------------------------------------------------------------------

    async def _replace(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: self._complaints.lines.append(str(context.get("exception", context)))
        )
        await self._end()
        self._folder = Path(tempfile.mkdtemp(prefix="goqueue-fuzz-"))
        # A fuzzer is ended in the middle of its work.
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        texts = {**_SETTINGS, "data.dir": str(self._folder / "data")}
        self._node = node = await Node.open(broker_config(texts))
        # In this process: every other one would cost more than a hundred inputs.
        node.schemas.worker._ask = _ask_here  # type: ignore[method-assign, assignment]
        service = BrokerService(node)
        mounts: list[Mount] = [SqsDoor(service), RegistryDoor(service)]
        self.http = HttpDoor(service, node.config, mounts=mounts)
        host, port = await self.http.start()
        self.kafka = KafkaDoor(service, node.config)
        await self.kafka.start()
        await node.announce(*self.kafka.address, port)
        await self._fill(service, f"http://{host}:{port}")

    async def _end(self) -> None:
        if self._folder is not None:
            await self.kafka.stop()
            await self.http.stop()
            await self._node.close()
            shutil.rmtree(self._folder)
            self._folder = None
            self._left = 0

    def close(self) -> None:
        """Another input opens a broker again."""
        self._runner.run(self._end())

    async def _fill(self, service: BrokerService, url: str) -> None:
        """What the seeds name."""
        import httpx

        await service.topics.create(ANYONE, NewTopic(name=TOPIC, partitions=1))
        await publish(self._node, TOPIC, [NewRecord(key=b"k", value=b"v")] * 3)
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            (await http.get("/topics")).raise_for_status()
            made = await sqs(
                http, "CreateQueue", QueueName=FIFO_QUEUE, Attributes={"FifoQueue": "true"}
            )
            made.raise_for_status()
            fields = {"MessageBody": "b", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
            (await sqs(http, "SendMessage", QueueUrl=URL, **fields)).raise_for_status()
            schema = {"schema": '{"type": "record", "name": "R", "fields": []}'}
            path = f"/subjects/{SUBJECT}/versions"
            (await http.post(path, json=schema)).raise_for_status()


async def _ask_here(job: Job, _asker: str) -> JobAnswer:
    # As the process gets it.
    return carry_out(msgspec.convert(msgspec.to_builtins(job), type(job)), MEMORY_MAX_BYTES)
