"""A request and, later, its answer."""

import asyncio
from time import perf_counter
from typing import Any

from goqueue.doors.kafka.large_requests import LARGE_ELEMENTS
from goqueue.doors.kafka.operation import Operation
from goqueue.doors.kafka.request_limits import RequestLimits
from goqueue.doors.kafka.wire.reading import TooManyElements
from goqueue.doors.kafka.wire.request_header import RequestHeader
from goqueue.doors.kafka.wire.schema import Schema, load_schema
from goqueue.doors.kafka.wire.writing import Chunks, Message, framed, join_small
from goqueue.pace import Pace


class Exchange:
    __slots__ = (
        "_encoded",
        "_frame",
        "_schema",
        "arrived_seconds",
        "elements",
        "failure",
        "header",
        "is_decoded",
        "is_done",
        "is_handled",
        "is_read",
        "message",
        "operation",
        "overlaps",
        "request",
        "size_bytes",
        "task",
        "version",
    )

    def __init__(self, header: RequestHeader, operation: Operation, frame: memoryview) -> None:
        self.arrived_seconds = perf_counter()
        self.header = header
        self.operation = operation
        self.size_bytes = len(frame)
        # None: the handler has it, and holds the parts of it that it needs.
        self._frame: memoryview | None = frame
        self._schema: Schema | None = None
        self.version = 0
        self.is_read = False
        # Not yet if it has very many elements: see `decode_in_slices`.
        self.is_decoded = False
        self.elements = 0
        self.overlaps = operation.overlaps
        self.request: Any = None
        # While the operation's handler has it.
        self.is_handled = False
        self.task: asyncio.Task[None] | None = None
        self.message: Message | None = None
        # Of a large answer, which is made before its turn to be sent.
        self._encoded: Chunks | None = None
        self.failure: str | None = None
        self.is_done = False

    def refusal(self, limits: RequestLimits, error: Exception) -> str:
        """Why the connection is closed on which it came."""
        told = f"{self.operation.name}: {error}"
        if isinstance(error, TooManyElements):
            told += f" ({limits.elements_setting(self.operation)})"
        return told

    def read(self, limits: RequestLimits) -> None:
        """Decode the request unless it is large, or raise `Malformed`."""
        self.is_read = True
        header, operation, frame = self.header, self.operation, self._frame
        assert frame is not None
        # A client that is newer than us is told so in version 0, and its request is not read.
        is_known = header.version <= operation.max_version
        self.version = header.version if is_known else 0
        schema = load_schema(operation.api_key, self.version, operation.max_version)
        self._schema = schema
        if is_known:
            position = header.body_position(frame, schema.has_tagged_request_header)
            try:
                self.request, self.elements = schema.read_request(
                    frame, position, limits.elements_at_once(operation)
                )
            except TooManyElements:
                if limits.elements_of(operation) <= LARGE_ELEMENTS:
                    raise
                self.elements = LARGE_ELEMENTS + 1
                self.overlaps = False
                return
        self._frame = None
        self.is_decoded = True

    async def decode_in_slices(self, limits: RequestLimits) -> int:
        """Decode a large request; twenty thousand elements take 50 ms. May raise `Malformed`.

        Returns how many elements it has.
        """
        frame, schema = self._frame, self._schema
        self._frame = None
        assert frame is not None
        assert schema is not None
        position = self.header.body_position(frame, schema.has_tagged_request_header)
        limit = limits.elements_of(self.operation)
        steps = schema.read_request_stepwise(frame, position, limit)
        pace = Pace()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                self.request, self.elements = done.value
                self.is_decoded = True
                return self.elements
            if pace.is_over:
                await pace.rest()

    @property
    def ends_with_client(self) -> bool:
        """Whether nobody but the client is worse off if the task is cancelled now."""
        return not self.is_handled or self.operation.waits or self.operation.only_reads

    @property
    def has_large_answer(self) -> bool:
        message, has_many = self.message, self.operation.answers_with_many
        if message is None:
            return False
        return self.elements > LARGE_ELEMENTS or (has_many is not None and has_many(message))

    async def encode_in_slices(self) -> None:
        """Make the bytes of a large answer; twenty thousand elements take a tenth of a second."""
        message, schema = self.message, self._schema
        assert message is not None
        assert schema is not None
        chunks: Chunks = []
        joined: Chunks = []
        steps = schema.write_response_stepwise(self.header.correlation_id, message, chunks)
        pace = Pace()
        for _ in steps:
            if pace.is_over:
                joined += join_small(chunks)
                chunks.clear()
                await pace.rest()
        self._encoded = joined + chunks
        self.message = None

    def answer(self) -> Chunks:
        """The bytes that answer it; none if the client wants none."""
        if self._encoded is not None:
            return framed(self._encoded)
        message, schema = self.message, self._schema
        if message is None:
            return []
        assert schema is not None
        return framed(schema.write_response(self.header.correlation_id, message))
