"""PLAIN (RFC 4616): name and password in one message."""

from typing import NamedTuple

from goqueue.model.security.errors import AuthenticationFailed


class NameAndPassword(NamedTuple):
    name: str
    password: str

    def __repr__(self) -> str:
        return f"NameAndPassword(name={self.name!r})"


def read_plain(message: bytes) -> NameAndPassword:
    """`[authzid] NUL name NUL password`; as in Kafka, nobody acts for somebody else."""
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise AuthenticationFailed("PLAIN: the message is not UTF-8") from None
    if len(parts) != 3:
        raise AuthenticationFailed("PLAIN: the message must have three parts")
    authzid, name, password = parts
    if not name or not password:
        raise AuthenticationFailed("PLAIN: user name and password must be there")
    if authzid not in ("", name):
        raise AuthenticationFailed("PLAIN: the authorization id is not the user name")
    return NameAndPassword(name, password)
