"""One connection to a broker: a typed Kafka request goes out, its typed response comes back."""

import asyncio
import io
import os
import struct
from typing import Final, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload, ResponsePayload

from goqueue.client.errors import BrokerUnreachable

Response = TypeVar("Response", bound=ResponsePayload)

CONNECT_TIMEOUT_SECONDS: Final = 5.0
# Longer than the time-out that is sent along with a request.
RESPONSE_TIMEOUT_SECONDS: Final = 35.0
# As large as a broker may be asked to answer; beyond, the other side does not speak Kafka.
RESPONSE_MAX_BYTES: Final = 104_857_600

_FRAME_LENGTH: Final = struct.Struct(">i")
_CLIENT_ID: Final = "goqueue"


class Connection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._address = address
        self._correlation_id = 0

    @classmethod
    async def open(cls, host: str, port: int) -> "Connection":
        address = f"{host}:{port}"
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                reader, writer = await asyncio.open_connection(host, port)
        except TimeoutError as error:
            raise BrokerUnreachable(
                f"no broker answers at {address} within {CONNECT_TIMEOUT_SECONDS:g} s"
            ) from error
        except OSError as error:
            # asyncio's own text for a refused connection repeats the address, not the reason.
            number = error.errno or 0
            reason = os.strerror(number) if number > 0 else error.strerror
            raise BrokerUnreachable(f"no broker answers at {address}: {reason}") from error
        return cls(reader, writer, address)

    async def call(self, request: RequestPayload, response_type: type[Response]) -> Response:
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_SECONDS):
                self._writer.write(self._frame(request))
                await self._writer.drain()
                (length,) = _FRAME_LENGTH.unpack(await self._reader.readexactly(4))
                if not 0 < length <= RESPONSE_MAX_BYTES:
                    raise BrokerUnreachable(f"what listens at {self._address} is not a Kafka port")
                frame = await self._reader.readexactly(length)
        except TimeoutError as error:
            raise BrokerUnreachable(
                f"the broker at {self._address} did not answer within "
                f"{RESPONSE_TIMEOUT_SECONDS:g} s"
            ) from error
        except (OSError, EOFError) as error:
            raise BrokerUnreachable(
                f"the broker at {self._address} closed the connection"
            ) from error
        return self._parse(frame, response_type)

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return  # the other side was faster

    def _frame(self, request: RequestPayload) -> bytes:
        self._correlation_id += 1
        header = request.__header_schema__(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=i32(self._correlation_id),
            client_id=_CLIENT_ID,
        )
        with io.BytesIO() as buffer:
            entity_writer(type(header))(buffer, header)
            entity_writer(type(request))(buffer, request)
            body = buffer.getvalue()
        return _FRAME_LENGTH.pack(len(body)) + body

    def _parse(self, frame: bytes, response_type: type[Response]) -> Response:
        try:
            header, header_size = entity_reader(response_type.__header_schema__)(frame, 0)
            response, _ = entity_reader(response_type)(frame, header_size)
        except Exception as error:  # whatever the decoder raises on bytes that are not Kafka's
            raise BrokerUnreachable(
                f"what listens at {self._address} answers in another language than Kafka's"
            ) from error
        if header.correlation_id != self._correlation_id:
            raise BrokerUnreachable(f"the broker at {self._address} answered out of order")
        return response
