"""One connection to a broker: a typed Kafka request goes out, its typed response comes back."""

import asyncio
import os
from typing import Final

from kio.static.protocol import RequestPayload

from goqueue.client.errors import BrokerUnreachable
from goqueue.client.framing import Response, parse_response, request_frame, response_length

CONNECT_TIMEOUT_SECONDS: Final = 5.0
# Longer than the time-out that is sent along with a request.
RESPONSE_TIMEOUT_SECONDS: Final = 35.0


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
        self._correlation_id += 1
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_SECONDS):
                self._writer.write(request_frame(request, self._correlation_id))
                await self._writer.drain()
                length = response_length(await self._reader.readexactly(4), self._address)
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
        return parse_response(frame, response_type, self._correlation_id, self._address)

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return  # the other side was faster
