"""A bare Kafka client for what librdkafka would blur: readiness, and the time of one look-up.

The oldest request versions that every current broker still answers are used; their fields are
fixed in width, so the encoding is a handful of struct formats.
"""

import socket
import struct
from typing import Final, NamedTuple, Self

_API_VERSIONS: Final = 18
_LIST_OFFSETS: Final = 2
_FETCH: Final = 1

_CLIENT_ID: Final = b"bench"
_HEADER: Final = struct.Struct(f">hhih{len(_CLIENT_ID)}s")
_ANY_ISOLATION: Final = 0
_LATEST: Final = -1
_CONNECT_LIMIT_S: Final = 1.0
_ANSWER_LIMIT_S: Final = 30.0


class WireError(Exception):
    """The broker answered with an error code, or with something that cannot be right."""


# Kafka's record batch format: the low three bits of a batch's attributes.
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_COMPRESSION_BITS: Final = 0b111


class FetchedBatch(NamedTuple):
    base_offset: int
    last_offset: int
    base_timestamp_ms: int
    compression: str


class KafkaWire:
    """One connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _CONNECT_LIMIT_S)
        self._socket.settimeout(_ANSWER_LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()

    def api_versions(self) -> None:
        (error,) = struct.unpack_from(">h", self._ask(_API_VERSIONS, 0, b""))
        _check(error)

    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int:
        name = topic.encode()
        body = struct.pack(
            f">iih{len(name)}siiq", -1, 1, len(name), name, 1, partition, timestamp_ms
        )
        answer = self._ask(_LIST_OFFSETS, 1, body)
        error, _, offset = struct.unpack_from(">hqq", answer, 4 + 2 + len(name) + 4 + 4)
        _check(error)
        return int(offset)

    def fetch_batch_at(self, topic: str, offset: int, *, partition: int = 0) -> FetchedBatch:
        """The batch that holds `offset`: asking for one byte gets exactly one batch."""
        name = topic.encode()
        body = struct.pack(
            f">iiiibih{len(name)}siiqi",
            *(-1, 1000, 1, 1, _ANY_ISOLATION),
            *(1, len(name), name, 1, partition, offset, 1),
        )
        answer = self._ask(_FETCH, 4, body)
        at = 4 + 4 + 2 + len(name) + 4 + 4
        error, _, _, aborted = struct.unpack_from(">hqqi", answer, at)
        _check(error)
        at += 22 + 16 * max(aborted, 0) + 4
        base_offset, _, _, _, _, attributes, last_delta, base_timestamp_ms = struct.unpack_from(
            ">qiibIhiq", answer, at
        )
        batch = FetchedBatch(
            base_offset,
            base_offset + last_delta,
            base_timestamp_ms,
            _COMPRESSIONS[attributes & _COMPRESSION_BITS],
        )
        if not batch.base_offset <= offset <= batch.last_offset:
            raise WireError(f"asked for offset {offset}, got {batch}")
        return batch

    def _ask(self, api_key: int, version: int, body: bytes) -> bytes:
        self._correlation_id += 1
        header = _HEADER.pack(api_key, version, self._correlation_id, len(_CLIENT_ID), _CLIENT_ID)
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (length,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(length)
        (correlation_id,) = struct.unpack_from(">i", answer)
        if correlation_id != self._correlation_id:
            raise WireError(f"answer {correlation_id} to request {self._correlation_id}")
        return answer[4:]

    def _receive(self, length: int) -> bytes:
        received = bytearray()
        while len(received) < length:
            chunk = self._socket.recv(length - len(received))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            received += chunk
        return bytes(received)


def answers_kafka(port: int) -> bool:
    try:
        with KafkaWire(port) as wire:
            wire.api_versions()
    except OSError:
        return False
    return True


def stored_compression(port: int, topic: str, partitions: int) -> str:
    """The compression of the first batch in the first partition that holds one."""
    with KafkaWire(port) as wire:
        for partition in range(partitions):
            if wire.offset_for_time(topic, _LATEST, partition=partition) > 0:
                return wire.fetch_batch_at(topic, 0, partition=partition).compression
    raise WireError(f"topic {topic} is empty")


def leads_partitions(port: int, topic: str, partitions: int) -> bool:
    """Whether every partition of a topic just made can be asked for its end."""
    try:
        with KafkaWire(port) as wire:
            for partition in range(partitions):
                wire.offset_for_time(topic, _LATEST, partition=partition)
    except WireError:
        return False
    return True


def _check(error: int) -> None:
    if error != 0:
        raise WireError(f"error code {error}")
