"""SaslAuthenticate (KIP-152): a message of the log-in; version 1 tells for how long it counts
(KIP-368)."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.operation import CloseConnection, Operation, RequestContext
from goqueue.doors.kafka.sasl.session import AUTHENTICATE, OutOfTurn
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.security.errors import AuthenticationFailed, TooManyLogIns
from goqueue.service.needs import OPEN

if TYPE_CHECKING:
    from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest


async def handle(context: RequestContext, request: "SaslAuthenticateRequest") -> Message:
    session = context.services.sasl.of(context.connection)
    if session is None:
        return _refused(ErrorCode.illegal_sasl_state, "nobody logs in while security is off")
    try:
        heard = await session.hear(bytes(request.auth_bytes))
    except OutOfTurn as error:
        return _refused(ErrorCode.illegal_sasl_state, str(error))
    except AuthenticationFailed as error:
        return _refused(ErrorCode.sasl_authentication_failed, error.message)
    except TooManyLogIns as error:
        raise CloseConnection(str(error)) from None
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "auth_bytes": heard.reply,
        "session_lifetime": heard.lifetime_ms,
    }


def _refused(code: ErrorCode, message: str) -> Message:
    return {"error_code": code, "error_message": message, "auth_bytes": b""}


OPERATION = Operation(
    api_key=AUTHENTICATE,
    name="SaslAuthenticate",
    min_version=0,
    max_version=2,
    handle=handle,
    needs=OPEN,
    # Who left is not logged in.
    waits=True,
    only_reads=True,
)
