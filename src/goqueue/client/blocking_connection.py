"""A connection for code without an event loop, such as Spark's workers: call, and wait."""

import socket
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, NoReturn, Self

from kio.static.protocol import RequestPayload

from goqueue.client.addresses import parse_addresses
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.framing import (
    CONNECT_TIMEOUT_SECONDS,
    FRAME_LENGTH,
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

# Large reads: a fetch of some megabytes should not take hundreds of calls into the kernel.
_RECEIVE_BUFFER_BYTES: Final = 4 * 1024 * 1024


class BlockingConnection:
    """One request at a time; a failed call leaves it closed."""

    def __init__(self, host: str, port: int, security: ClientSecurity = NO_SECURITY) -> None:
        """Logged in, where `security` says how."""
        self.address = f"{host}:{port}"
        self.correlation_id = 0
        # Kept from one answer to the next: new memory for each fetch would cost more than its copy.
        self._buffer = bytearray()
        context = tls_context(security)
        try:
            self._socket = socket.create_connection((host, port), CONNECT_TIMEOUT_SECONDS)
        except OSError as error:
            raise not_connected(self.address, error) from error
        if context is not None:
            try:
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
            except OSError as error:
                self._socket.close()
                raise not_connected(self.address, error) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        self._socket.settimeout(RESPONSE_TIMEOUT_SECONDS)
        if security.sasl_mechanism is not None:
            try:
                self._log_in(security)
            except BaseException:
                self.close()
                raise

    def _log_in(self, security: ClientSecurity) -> None:
        login = log_in(security)
        question = first_question(login)
        while question is not None:
            question = next_question(login, self.call(*question))

    def call(self, request: RequestPayload, response_type: type[Response]) -> Response:
        self.send(request)
        return self.receive(response_type)

    def send(self, request: RequestPayload) -> None:
        """Ask; `receive` must follow before the next request is sent."""
        self.correlation_id += 1
        try:
            self._socket.sendall(request_frame(request, self.correlation_id))
        except OSError as error:
            self._fail(error)

    def receive(self, response_type: type[Response]) -> Response:
        frame = bytes(self.receive_frame())
        return parse_response(frame, response_type, self.correlation_id, self.address)

    def receive_frame(self) -> memoryview:
        """The answer undecoded; it is overwritten by the next one."""
        try:
            self._read(FRAME_LENGTH.size)
            length = response_length(self._buffer[: FRAME_LENGTH.size], self.address)
            return self._read(length)
        except (OSError, EOFError) as error:
            self._fail(error)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self, size: int) -> memoryview:
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        content = memoryview(self._buffer)[:size]
        rest = content
        while rest:
            count = self._socket.recv_into(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return content

    def _fail(self, error: Exception) -> NoReturn:
        self.close()
        raise not_answered(self.address, error) from error


def connect_any(
    bootstrap_servers: str, security: ClientSecurity = NO_SECURITY
) -> BlockingConnection:
    """A connection to the first of the addresses that answers; the first one's error if none."""
    return first_reachable(
        parse_addresses(bootstrap_servers), lambda address: BlockingConnection(*address, security)
    )


def first_reachable(
    addresses: Sequence[tuple[str, int]],
    connect: Callable[[tuple[str, int]], BlockingConnection],
) -> BlockingConnection:
    failure: BrokerUnreachable | None = None
    for address in addresses:
        try:
            return connect(address)
        except BrokerUnreachable as error:
            failure = failure or error
    assert failure is not None, "parse_addresses returns at least one"
    raise failure
