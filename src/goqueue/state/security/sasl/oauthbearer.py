"""OAUTHBEARER (RFC 7628): a token in one message, and how one that is refused is told so."""

import re
from typing import Final, NamedTuple

from goqueue.model.security.errors import AuthenticationFailed

# Kafka's answer to any token that is not taken.
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'

# KIP-342: extensions are pairs like `auth`; none means anything here.
_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,\0]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)*)\x01"
)
_AUTH: Final = re.compile(r"bearer +(?P<token>[A-Za-z0-9\-._~+/]+=*)", re.IGNORECASE)


class BearerToken(NamedTuple):
    """`authzid` is empty, or must be whom the token speaks of."""

    token: str
    authzid: str

    def __repr__(self) -> str:
        return f"BearerToken(authzid={self.authzid!r})"


def read_bearer(message: bytes) -> BearerToken:
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise AuthenticationFailed("OAUTHBEARER: the client's first message is malformed")
    pairs = dict(each.split("=", 1) for each in found["pairs"].split("\x01") if each)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None:
        raise AuthenticationFailed("OAUTHBEARER: the message has no bearer token")
    authzid = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return BearerToken(auth["token"], authzid)
