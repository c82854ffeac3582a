"""What requests about delegation tokens have in common (KIP-48)."""

from collections.abc import Awaitable
from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError

# The one kind of principals that tokens are of.
USER: Final = "User"
# Of a token that there is not.
NO_TIME: Final = 0
_MILLISECOND: Final = timedelta(milliseconds=1)


def period_ms(span: timedelta) -> int | None:
    """None for a negative one, with which clients say that they ask for none."""
    milliseconds = span // _MILLISECOND
    return None if milliseconds < 0 else milliseconds


def is_by_token(context: RequestContext) -> bool:
    """Whether who asks logged in by a token itself."""
    session = context.services.sasl.of(context.connection)
    login = None if session is None else session.login
    return login is not None and login.token_id is not None


async def new_end(changed: Awaitable[int]) -> Message:
    """When a token ends now that this was changed."""
    try:
        return {"error_code": ErrorCode.none, "expiry_timestamp": await changed}
    except GoQueueError as error:
        return {"error_code": error_code(error), "expiry_timestamp": NO_TIME}


def principal(text: str, prefix: str) -> Message:
    """Of `User:alice`, in the two fields that it is written in."""
    kind, _, name = text.partition(":")
    return {f"{prefix}principal_type": kind, f"{prefix}principal_name": name}
