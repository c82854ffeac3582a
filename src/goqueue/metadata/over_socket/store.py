"""`SocketStore`: the metadata store that another process has open.

When the connection ends, so has that process, and everything that is asked from then on is answered
with `MetadataUnavailable`: there is no way back.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, Self, TypeVar

import msgspec

from goqueue.metadata.over_socket.messages import (
    ANSWER_MAX_BYTES,
    LENGTH,
    OPERATIONS_MAX,
    QUESTION_MAX_BYTES,
    Answer,
    Asked,
    BadFrame,
    BeginWatch,
    Changed,
    Decided,
    Done,
    EndWatch,
    Found,
    Granted,
    GrantLease,
    KeepAlive,
    Question,
    Refused,
    Revoke,
    Said,
    Transact,
    error_of,
    framed,
    read_frame,
)
from goqueue.metadata.store import (
    Compare,
    Get,
    GetPrefix,
    LeaseId,
    MetadataStore,
    Op,
    Read,
    TxnResult,
    WatchBatch,
)
from goqueue.model.errors import (
    CompactedRevision,
    GoQueueError,
    InvalidRequest,
    MetadataUnavailable,
    ShuttingDown,
)
from goqueue.model.measuring.histograms import Histogram

logger = logging.getLogger(__name__)

_ANSWERS: Final = msgspec.msgpack.Decoder(Answer)
_SaidT = TypeVar("_SaidT", bound=Said)

# The store answers when its disk has it: far less than a second, unless the disk is very busy.
CALL_TIMEOUT_S: Final = 10.0
# A reader this far behind is slower than the cluster changes, and reads everything anew.
WATCH_WAITING_MAX: Final = 10_000


class SocketStore(MetadataStore):
    """Make one with `open`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_lost: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._on_lost = on_lost
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Said]] = {}
        self._watches: dict[int, SocketWatch] = {}
        self._failure: str | None = None
        self._is_lost = False
        self._is_closed = False
        self._latencies = Histogram()
        self._reading = asyncio.create_task(self._read(reader))

    @classmethod
    async def open(
        cls, connection: socket.socket, *, on_lost: Callable[[], None] = lambda: None
    ) -> Self:
        """`on_lost` is called once, when the process that has the store is gone."""
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        return cls(reader, writer, on_lost)

    @property
    def unavailable_reason(self) -> str | None:
        return self._failure

    @property
    def latencies(self) -> Histogram:
        return self._latencies

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        for waiting in tuple(self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(ShuttingDown("the metadata store is closed"))
        for watch in tuple(self._watches.values()):
            watch.end()
        self._watches.clear()
        self._writer.close()

    # --- keys -----------------------------------------------------------------------------

    async def get(self, key: str) -> Read:
        found = await self._call(Get(key), Found)
        return Read(found.kvs, found.revision)

    async def get_prefix(self, prefix: str) -> Read:
        found = await self._call(GetPrefix(prefix), Found)
        return Read(found.kvs, found.revision)

    async def transact(
        self,
        compares: Sequence[Compare],
        success_ops: Sequence[Op],
        failure_ops: Sequence[Op] = (),
    ) -> TxnResult:
        largest = max(len(compares), len(success_ops), len(failure_ops))
        if largest > OPERATIONS_MAX:
            raise InvalidRequest(
                f"transaction: {largest} operations; the store takes {OPERATIONS_MAX} at once"
            )
        asked = Transact(tuple(compares), tuple(success_ops), tuple(failure_ops))
        done = await self._call(asked, Decided)
        return TxnResult(done.succeeded, done.revision, done.responses)

    # --- leases ---------------------------------------------------------------------------

    async def grant_lease(self, ttl_ms: int) -> LeaseId:
        return LeaseId((await self._call(GrantLease(ttl_ms), Granted)).number)

    async def keep_alive(self, lease: LeaseId) -> int:
        return (await self._call(KeepAlive(lease), Granted)).number

    async def revoke(self, lease: LeaseId) -> None:
        await self._call(Revoke(lease), Done)

    # --- watches --------------------------------------------------------------------------

    def watch(self, prefix: str, from_revision: int) -> "SocketWatch":
        if from_revision < 1:
            raise InvalidRequest(f"from_revision: {from_revision} is below 1")
        self._check_open()
        number = next(self._numbers)
        watch = SocketWatch(lambda: self._end_watch(number))
        self._watches[number] = watch
        self._writer.write(framed(Question(number, BeginWatch(prefix, from_revision))))
        return watch

    def _end_watch(self, number: int) -> None:
        if self._watches.pop(number, None) is not None and not self._is_lost:
            self._writer.write(framed(Question(number, EndWatch())))

    # --- the connection -------------------------------------------------------------------

    async def _call(self, asked: Asked, expected: type[_SaidT]) -> _SaidT:
        started = time.perf_counter()
        try:
            said = await self._answer_to(asked)
        finally:
            self._latencies.observe(time.perf_counter() - started)
        if isinstance(said, Refused):
            error = error_of(said)
            self._failure = error.message if isinstance(error, MetadataUnavailable) else None
            raise error
        self._failure = None
        assert isinstance(said, expected)
        return said

    async def _answer_to(self, asked: Asked) -> Said:
        self._check_open()
        number = next(self._numbers)
        frame = framed(Question(number, asked))
        if len(frame) > QUESTION_MAX_BYTES + LENGTH.size:
            raise InvalidRequest(
                f"request of {len(frame)} bytes to the metadata store; "
                f"the limit is {QUESTION_MAX_BYTES}"
            )
        answered: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        try:
            # What is written is bounded by who asks: the number of its calls, and their size.
            self._writer.write(frame)
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await answered
        except TimeoutError:
            raise self._unavailable(f"no answer within {CALL_TIMEOUT_S:g} s") from None
        finally:
            del self._waiting[number]

    def _check_open(self) -> None:
        if self._is_closed:
            raise ShuttingDown("the metadata store is closed")
        if self._is_lost:
            raise self._unavailable("the process that has it is gone")

    def _unavailable(self, reason: str) -> MetadataUnavailable:
        self._failure = f"metadata store: {reason}"
        return MetadataUnavailable(self._failure)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                answer: Answer = await read_frame(reader, _ANSWERS, ANSWER_MAX_BYTES)
                self._take(answer)
        except BadFrame as error:
            logger.error("the metadata store sent %s", error.message)
        except (asyncio.IncompleteReadError, OSError):
            pass
        self._is_lost = True
        lost = self._unavailable("the process that has it is gone")
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(lost)
        self._writer.close()
        self._on_lost()

    def _take(self, answer: Answer) -> None:
        watch = self._watches.get(answer.number)
        if watch is not None:
            if not watch.take(answer.said):
                self._end_watch(answer.number)
            return
        # Nobody waits for it any more where a call was cancelled.
        waiting = self._waiting.get(answer.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer.said)


class SocketWatch:
    """While the connection is gone nothing comes: the store may not be closed yet."""

    def __init__(self, on_close: Callable[[], None]) -> None:
        self._on_close = on_close
        self._batches: asyncio.Queue[WatchBatch | GoQueueError | None] = asyncio.Queue()
        self._over: GoQueueError | StopAsyncIteration | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        if self._over is not None:
            raise self._over
        match await self._batches.get():
            case WatchBatch() as batch:
                return batch
            case None:
                self._over = StopAsyncIteration()
            case error:
                self._over = error
        raise self._over

    async def aclose(self) -> None:
        self._on_close()
        self.end()

    def take(self, said: Said) -> bool:
        """False where this was the last that it takes."""
        match said:
            case Changed(batch):
                if self._batches.qsize() < WATCH_WAITING_MAX:
                    self._batches.put_nowait(batch)
                    return True
                self._drop_all()
                message = f"{WATCH_WAITING_MAX} changes waited for a watch; read everything again"
                self._batches.put_nowait(CompactedRevision(message, batch.revision))
            case Refused():
                self._batches.put_nowait(error_of(said))
            case _:
                self._batches.put_nowait(None)
        return False

    def end(self) -> None:
        """Nothing more is read: what waits is dropped, and whoever waits is told."""
        self._drop_all()
        self._batches.put_nowait(None)

    def _drop_all(self) -> None:
        while not self._batches.empty():
            self._batches.get_nowait()
