"""SaslHandshake (KIP-43): which mechanism the client logs in by."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.sasl.session import HANDSHAKE, OutOfTurn
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.security.errors import UnsupportedMechanism
from goqueue.service.needs import OPEN

if TYPE_CHECKING:
    from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest


async def handle(context: RequestContext, request: "SaslHandshakeRequest") -> Message:
    session = context.services.sasl.of(context.connection)
    if session is None:
        return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": ()}
    mechanisms = session.mechanisms
    try:
        session.choose(request.mechanism, context.version)
    except UnsupportedMechanism:
        return {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": mechanisms}
    except OutOfTurn:
        return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": ()}
    return {"error_code": ErrorCode.none, "mechanisms": mechanisms}


OPERATION = Operation(
    api_key=HANDSHAKE,
    name="SaslHandshake",
    min_version=0,
    max_version=1,
    handle=handle,
    needs=OPEN,
)
