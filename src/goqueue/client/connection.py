"""One connection to a broker: a typed Kafka request goes out, its typed response comes back."""

import asyncio

from kio.static.protocol import RequestPayload

from goqueue.client.framing import (
    CONNECT_TIMEOUT_SECONDS,
    RESPONSE_TIMEOUT_SECONDS,
    Response,
    not_answered,
    not_connected,
    parse_response,
    request_frame,
    response_length,
)
from goqueue.client.sasl import first_question, log_in, next_question
from goqueue.client.tls import tls_context
from goqueue.model.client_security import NO_SECURITY, ClientSecurity


class Connection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._address = address
        self._correlation_id = 0

    @classmethod
    async def open(
        cls, host: str, port: int, security: ClientSecurity = NO_SECURITY
    ) -> "Connection":
        """Logged in, where `security` says how."""
        address = f"{host}:{port}"
        context = tls_context(security)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
        except OSError as error:
            raise not_connected(address, error) from error
        connection = cls(reader, writer, address)
        if security.sasl_mechanism is not None:
            try:
                await connection.log_in(security)
            except BaseException:
                connection.drop()
                raise
        return connection

    async def log_in(self, security: ClientSecurity) -> None:
        login = log_in(security)
        question = first_question(login)
        while question is not None:
            question = next_question(login, await self.call(*question))

    async def call(self, request: RequestPayload, response_type: type[Response]) -> Response:
        self._correlation_id += 1
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_SECONDS):
                self._writer.write(request_frame(request, self._correlation_id))
                await self._writer.drain()
                length = response_length(await self._reader.readexactly(4), self._address)
                frame = await self._reader.readexactly(length)
        except (OSError, EOFError) as error:
            raise not_answered(self._address, error) from error
        return parse_response(frame, response_type, self._correlation_id, self._address)

    @property
    def is_usable(self) -> bool:
        """False once the other side has closed it."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    def drop(self) -> None:
        """Close it without waiting for that."""
        self._writer.close()

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return  # the other side was faster
