"""A bare share-group client: one connection of one member, written out by hand.

No client in Python is fast enough to find the broker's limit, and every record is acknowledged on
its own here: each acknowledgement batch has one type per offset.
"""

import asyncio
import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self
from uuid import UUID

_HEARTBEAT: Final = (76, 1)
_SHARE_FETCH: Final = (78, 1)
_CLIENT_ID: Final = b"bench"
_ACCEPT: Final = b"\x01"
_NO_TAGS: Final = b"\x00"
_ANSWER_LIMIT_S: Final = 30.0
# The fixed part of a record batch up to its record count; see Kafka's record batch format.
_BATCH: Final = struct.Struct(">qi45xi")
_BATCH_LENGTH_FROM: Final = 12


class ShareWireError(Exception):
    """The broker answered with an error code, or with something that cannot be right."""


class Acquired(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int

    @property
    def size(self) -> int:
        return self.last_offset - self.first_offset + 1


@dataclass(slots=True)
class Fetched:
    """By partition; `records` are the stored batches as they came."""

    acquired: dict[int, list[Acquired]] = field(default_factory=dict)
    records: dict[int, bytes] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(a.size for ranges in self.acquired.values() for a in ranges)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _text(value: str) -> bytes:
    raw = value.encode()
    return _varint(len(raw) + 1) + raw


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return found

    def varint(self) -> int:
        shift = value = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def raw(self) -> bytes:
        """Bytes or text behind a compact length; none is empty."""
        size = max(self.varint() - 1, 0)
        self.at += size
        return self.data[self.at - size : self.at]

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.at += self.varint()


class ShareMember:
    """Member of a group on a connection of its own; one request at a time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, group: str, member: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._group = group
        self._member = member
        self._epoch = 0
        self._correlation_id = 0
        self._topic_id = b""
        self.partitions: list[int] = []

    @classmethod
    async def join(cls, port: int, group: str, member: str, topic: str) -> Self:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * 2**20)
        joined = cls(reader, writer, group, member)
        await joined.heartbeat(0, topic)
        return joined

    async def heartbeat(self, epoch: int, topic: str | None = None) -> int:
        topics = b"\x00" if topic is None else _varint(2) + _text(topic)
        body = _text(self._group) + _text(self._member) + struct.pack(">i", epoch)
        answer = await self._ask(_HEARTBEAT, body + b"\x00" + topics + _NO_TAGS)
        _, error = answer.take(">ih")
        message = answer.raw()
        if error:
            raise ShareWireError(f"heartbeat: error {error} {message.decode()}")
        answer.raw()
        member_epoch, _ = answer.take(">ii")
        if answer.take(">b")[0] >= 0:
            for _ in range(answer.varint() - 1):
                self._topic_id = answer.data[answer.at : answer.at + 16]
                answer.at += 16
                count = answer.varint() - 1
                self.partitions = list(answer.take(f">{count}i"))
                answer.tags()
        return member_epoch

    @property
    def topic_id(self) -> UUID:
        return UUID(bytes=self._topic_id)

    async def fetch(
        self, done: Fetched | None, *, max_records: int, max_wait_ms: int, min_bytes: int = 1
    ) -> Fetched:
        """Accept every record of `done` on its own, and acquire the next ones."""
        acks = {} if done is None else done.acquired
        named = self.partitions if self._epoch == 0 else list(acks)
        parts = b"".join(
            struct.pack(">i", index) + self._batches(acks.get(index, [])) + _NO_TAGS
            for index in named
        )
        topics = b"\x01"
        if named:
            topics = _varint(2) + self._topic_id + _varint(len(named) + 1) + parts + _NO_TAGS
        numbers = (self._epoch, max_wait_ms, min_bytes, 2**31 - 1, max_records, max_records)
        body = _text(self._group) + _text(self._member) + struct.pack(">6i", *numbers)
        answer = await self._ask(_SHARE_FETCH, body + topics + b"\x01" + _NO_TAGS)
        self._epoch += 1
        return _read_fetched(answer)

    def _batches(self, ranges: list[Acquired]) -> bytes:
        return _varint(len(ranges) + 1) + b"".join(
            struct.pack(">qq", found.first_offset, found.last_offset)
            + _varint(found.size + 1)
            + _ACCEPT * found.size
            + _NO_TAGS
            for found in ranges
        )

    async def _ask(self, operation: tuple[int, int], body: bytes) -> _Reader:
        self._correlation_id += 1
        head = struct.pack(
            f">hhih{len(_CLIENT_ID)}sb",
            *(*operation, self._correlation_id, len(_CLIENT_ID), _CLIENT_ID, 0),
        )
        self._writer.write(struct.pack(">i", len(head) + len(body)) + head + body)
        async with asyncio.timeout(_ANSWER_LIMIT_S):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            answer = _Reader(await self._reader.readexactly(size))
        (correlation_id,) = answer.take(">i")
        if correlation_id != self._correlation_id:
            raise ShareWireError(f"answer {correlation_id} to request {self._correlation_id}")
        answer.tags()
        return answer

    def close(self) -> None:
        self._writer.close()


def _read_fetched(answer: _Reader) -> Fetched:
    _, error = answer.take(">ih")
    message = answer.raw()
    if error:
        raise ShareWireError(f"share fetch: error {error} {message.decode()}")
    answer.take(">i")
    found = Fetched()
    for _ in range(answer.varint() - 1):
        answer.at += 16
        for _ in range(answer.varint() - 1):
            index, error = answer.take(">ih")
            message = answer.raw()
            (ack_error,) = answer.take(">h")
            ack_message = answer.raw()
            if error or ack_error:
                raise ShareWireError(
                    f"partition {index}: error {error} {message.decode()}, acknowledgements "
                    f"{ack_error} {ack_message.decode()}"
                )
            answer.take(">ii")
            answer.tags()
            records = answer.raw()
            ranges = []
            for _ in range(answer.varint() - 1):
                ranges.append(Acquired(*answer.take(">qqh")))
                answer.tags()
            answer.tags()
            if ranges:
                found.acquired[index] = ranges
                found.records[index] = records
        answer.tags()
    return found


def records_in(data: bytes) -> int:
    """How many records the batches say they have."""
    at = count = 0
    while at < len(data):
        _, length, records = _BATCH.unpack_from(data, at)
        at += length + _BATCH_LENGTH_FROM
        count += records
    return count
