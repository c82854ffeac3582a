"""Tokens as frames of their own, without header (before KIP-152): after version 0 of the handshake.

They stand in line with requests, and are answered in the same form. One that fails has no answer.
"""

from typing import Final

from goqueue.doors.kafka.exchange import Exchange
from goqueue.doors.kafka.operation import CloseConnection, Operation, RequestContext
from goqueue.doors.kafka.request_limits import RequestLimits
from goqueue.doors.kafka.sasl.session import AUTHENTICATE, OutOfTurn
from goqueue.doors.kafka.wire.request_header import RequestHeader
from goqueue.doors.kafka.wire.writing import Chunks, Message, framed
from goqueue.model.security.errors import AuthenticationFailed, TooManyLogIns
from goqueue.service.needs import OPEN

_HEADER: Final = RequestHeader(AUTHENTICATE, 0, 0, None, 0)


async def handle(context: RequestContext, token: bytes) -> Message:
    session = context.services.sasl.of(context.connection)
    assert session is not None
    try:
        heard = await session.hear(token)
    except (AuthenticationFailed, OutOfTurn, TooManyLogIns) as error:
        raise CloseConnection(str(error)) from None
    return {"token": heard.reply}


# Of no table: it has no number.
OPERATION: Final = Operation(
    api_key=AUTHENTICATE,
    name="SaslToken",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=OPEN,
    waits=True,
    only_reads=True,
    answers_with_many=None,
)


class TokenExchange(Exchange):
    __slots__ = ("_token",)

    def __init__(self, frame: memoryview) -> None:
        super().__init__(_HEADER, OPERATION, frame)
        self._token = bytes(frame)

    def read(self, limits: RequestLimits) -> None:  # noqa: ARG002
        self.is_read = self.is_decoded = True
        self.request = self._token

    def answer(self) -> Chunks:
        assert self.message is not None
        return framed([self.message["token"]])
