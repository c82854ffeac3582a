"""A client that speaks any version of any operation, by kio's codec rather than ours."""

import asyncio
import io
import struct
from datetime import timedelta
from typing import Any

from kio.index import load_entity_schema, load_response_from_request
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from goqueue.doors.kafka.wire.fields import fields_of

CALL_TIMEOUT_SECONDS = 60


def newest_version(name: str) -> int:
    return max(schema_name_map[name])


class WireClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    @classmethod
    async def connect(cls, host: str, port: int) -> "WireClient":
        return cls(*await asyncio.open_connection(host, port))

    async def call(self, name: str, version: int | None = None, **message: Any) -> Any:
        """Send a request, its missing fields filled with defaults, and return the answer."""
        expected = self.send(name, version, **message)
        return await self.receive(*expected)

    def send(self, name: str, version: int | None = None, **message: Any) -> tuple[int, Any]:
        chosen = newest_version(name) if version is None else version
        request = _build(load_entity_schema(name, chosen, EntityType.request), message)
        self._correlation_id += 1
        self.writer.write(encode(request, self._correlation_id))
        return self._correlation_id, load_response_from_request(request)

    async def receive(self, correlation_id: int, response_type: Any) -> Any:
        frame = await self.receive_frame()
        assert struct.unpack_from(">i", frame) == (correlation_id,)
        position = 4 if response_type.__header_schema__.__version__ == 0 else 5
        response, size = entity_reader(response_type)(memoryview(frame), position)
        assert position + size == len(frame)
        return response

    async def receive_frame(self) -> bytes:
        async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def is_closed_by_broker(self) -> bool:
        async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True

    def close(self) -> None:
        self.writer.close()


def encode(request: Any, correlation_id: int) -> bytes:
    buffer = io.BytesIO()
    buffer.write(
        struct.pack(">hhih", request.__api_key__, request.__version__, correlation_id, 4) + b"test"
    )
    if request.__flexible__:
        buffer.write(b"\x00")
    entity_writer(type(request))(buffer, request)
    body = buffer.getvalue()
    return struct.pack(">i", len(body)) + body


def _build(entity: Any, message: dict[str, Any]) -> Any:
    values: dict[str, Any] = {}
    given = dict(message)
    for field in fields_of(entity):
        value = given.pop(field.name, field.default)
        if field.entity is not None and isinstance(value, dict):
            value = _build(field.entity, value)
        elif field.is_array and value is not None:
            value = tuple(
                _build(field.entity, item) if isinstance(item, dict) else item for item in value
            )
        elif field.kafka_type in ("timedelta_i32", "timedelta_i64") and isinstance(value, int):
            value = timedelta(milliseconds=value)
        values[field.name] = value
    assert not given, f"{entity.__name__} has no field {', '.join(given)}"
    return entity(**values)
