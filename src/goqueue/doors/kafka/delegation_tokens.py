"""What requests about delegation tokens have in common (KIP-48)."""

from datetime import timedelta
from typing import Final

from goqueue.doors.kafka.operation import RequestContext
from goqueue.doors.kafka.wire.writing import Message

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


def principal(text: str, prefix: str) -> Message:
    """Of `User:alice`, in the two fields that it is written in."""
    kind, _, name = text.partition(":")
    return {f"{prefix}principal_type": kind, f"{prefix}principal_name": name}
