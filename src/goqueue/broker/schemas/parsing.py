"""Schemas as the worker reads them, remembered: clients send and fetch the same ones repeatedly."""

import asyncio
from collections import OrderedDict
from typing import Final, Generic, NamedTuple, TypeVar

from goqueue.broker.schemas.jobs import (
    Assessed,
    AssessJob,
    Described,
    DescribeJob,
    Parsed,
    ParseJob,
)
from goqueue.broker.schemas.worker import SchemaWorker
from goqueue.model.schemas.formats import ParsedSchema, SchemaSource

# The schemas of thousands of topics; one of the largest is a small part of it.
REMEMBERED_MAX_BYTES: Final = 32 * 1024 * 1024

Key = TypeVar("Key")
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """The results used last, up to a size."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._size_bytes = 0

    def get(self, key: Key) -> Value | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Key, value: Value, *, size_bytes: int) -> None:
        if key in self._entries:
            return
        self._entries[key] = value, size_bytes
        self._size_bytes += size_bytes
        while self._size_bytes > self._max_bytes:
            _, (_, gone_bytes) = self._entries.popitem(last=False)
            self._size_bytes -= gone_bytes


class _Sent(NamedTuple):
    source: SchemaSource
    normalize: bool


class SchemaParser:
    """The worker is asked only for what was not asked before."""

    def __init__(
        self, worker: SchemaWorker, *, remembered_max_bytes: int = REMEMBERED_MAX_BYTES
    ) -> None:
        self._worker = worker
        self._parsed: Remembered[_Sent, ParsedSchema] = Remembered(remembered_max_bytes)
        self._described: Remembered[SchemaSource, str] = Remembered(remembered_max_bytes)
        # A new schema comes from all instances of a service at once: one job serves them all.
        self._parsing: dict[_Sent, asyncio.Task[ParsedSchema]] = {}

    async def parse(
        self, source: SchemaSource, *, normalize: bool, asker: str = ""
    ) -> ParsedSchema:
        """Raises `RegistryRefusal` for what is no schema."""
        sent = _Sent(source, normalize)
        parsed = self._parsed.get(sent)
        if parsed is not None:
            return parsed
        task = self._parsing.get(sent)
        if task is None:
            task = self._parsing[sent] = asyncio.create_task(self._parse(sent, asker))
            task.add_done_callback(lambda done: self._over(sent, done))
        try:
            # Shielded: a client that goes away must not stop it for the others.
            return await asyncio.shield(task)
        finally:
            # It holds its error, whose traceback would hold it.
            del task

    async def _parse(self, sent: _Sent, asker: str) -> ParsedSchema:
        parsed = (await self._worker.run(ParseJob(*sent), Parsed, asker=asker)).schema
        size_bytes = _size_bytes(sent.source) + len(parsed.canonical)
        self._parsed.put(sent, parsed, size_bytes=size_bytes)
        return parsed

    def _over(self, sent: _Sent, done: "asyncio.Task[ParsedSchema]") -> None:
        del self._parsing[sent]
        if not done.cancelled():
            # Looked at, though nobody may be left to be told.
            done.exception()

    async def describe(self, source: SchemaSource) -> str:
        """A Protobuf schema as its compiled descriptor in Base64, which some clients want; an Avro
        schema with what it refers to put in its place.
        """
        described = self._described.get(source)
        if described is None:
            described = (await self._worker.run(DescribeJob(source), Described)).text
            size_bytes = _size_bytes(source) + len(described)
            self._described.put(source, described, size_bytes=size_bytes)
        return described

    async def assess(self, source: SchemaSource) -> int | None:
        """How many steps the check of a payload takes for each byte; None if without a bound."""
        return (await self._worker.run(AssessJob(source), Assessed)).steps


def _size_bytes(source: SchemaSource) -> int:
    """About what it takes; most texts are ASCII."""
    return len(source.text) + sum(len(reference.text) for reference in source.references)
