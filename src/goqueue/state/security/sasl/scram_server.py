"""The server's side of SCRAM (RFC 5802, 5 and 7) without channel binding, as Kafka has it.

    state        the client sends            the server says
    NEW          n,,n=alice,r=c1             (who it is; a record is looked for)
    ASKED                                    r=c1s1,s=<salt>,i=4096
    CHALLENGED   c=biws,r=c1s1,p=<proof>     v=<signature>
    DONE

Whatever does not fit is `AuthenticationFailed`, and nothing goes on from there. Nothing here costs
more than three hashes: the slow part of SCRAM is the client's.
"""

import base64
import binascii
import hashlib
import hmac
import re
from enum import Enum, auto
from typing import Final, NamedTuple

from goqueue.model.security.errors import AuthenticationFailed
from goqueue.model.security.users import ScramRecord
from goqueue.state.security.scram import HASHES

# Nobody's nonce, name or proof is that long; all of it is kept until the log-in is over.
MESSAGE_MAX_BYTES: Final = 16_384
# KIP-48: the name is that of a delegation token.
TOKEN_EXTENSION: Final = "tokenauth"

# `p=` would ask for a channel binding, which is not offered. An `m=` is an extension that must be
# understood, and none is.
_FIRST: Final = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>[^,\0]+))?,)"
    r"(?P<bare>n=(?P<name>[^,\0]+),r=(?P<nonce>[!-+\--~]+)(?P<extensions>(?:,[A-Za-z]+=[^,\0]+)*))"
)
_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)"
    r"(?:,[A-Za-z]+=[^,\0]+)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class _State(Enum):
    NEW = auto()
    ASKED = auto()
    CHALLENGED = auto()
    DONE = auto()


class Claim(NamedTuple):
    """Who the client says it is: a user, or the holder of a token by the token's id."""

    name: str
    is_token: bool


class ScramServer:
    def __init__(self, mechanism: str) -> None:
        self._hash = HASHES[mechanism]
        self._state = _State.NEW
        self._gs2 = ""
        self._client_first = ""
        self._server_first = ""
        self._nonce = ""
        self._record: ScramRecord | None = None

    def claim(self, message: bytes) -> Claim:
        """The client's first message."""
        self._move(_State.NEW, _State.ASKED)
        found = _FIRST.fullmatch(_text(message))
        if found is None:
            raise AuthenticationFailed("SCRAM: the client's first message is malformed")
        name = _name(found["name"])
        if found["authzid"] is not None and _name(found["authzid"]) != name:
            raise AuthenticationFailed("SCRAM: the authorization id is not the user name")
        self._gs2, self._client_first, self._nonce = found["gs2"], found["bare"], found["nonce"]
        extensions = dict(each.split("=", 1) for each in found["extensions"].split(",") if each)
        return Claim(name, extensions.get(TOKEN_EXTENSION, "").lower() == "true")

    def challenge(self, record: ScramRecord, nonce: str) -> bytes:
        """`nonce` is the server's part of it: 16 random bytes or more, printable."""
        self._move(_State.ASKED, _State.CHALLENGED)
        self._record = record
        self._nonce += nonce
        salt = base64.b64encode(record.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={record.iterations}"
        return self._server_first.encode()

    def finish(self, message: bytes) -> bytes:
        """The client's proof; returns the server's."""
        self._move(_State.CHALLENGED, _State.DONE)
        found = _FINAL.fullmatch(_text(message))
        if found is None:
            raise AuthenticationFailed("SCRAM: the client's final message is malformed")
        bound = base64.b64encode(self._gs2.encode()).decode()
        if found["binding"] != bound or found["nonce"] != self._nonce:
            raise AuthenticationFailed("SCRAM: the client's final message is of another log-in")
        record = self._record
        assert record is not None
        spoken = f"{self._client_first},{self._server_first},{found['without_proof']}".encode()
        signature = hmac.digest(record.stored_key, spoken, self._hash)
        client_key = _xor(_decoded(found["proof"]), signature)
        stored = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored, record.stored_key):
            raise AuthenticationFailed("SCRAM: the proof does not fit")
        verifier = hmac.digest(record.server_key, spoken, self._hash)
        return b"v=" + base64.b64encode(verifier)

    def _move(self, before: _State, after: _State) -> None:
        if self._state is not before:
            raise AuthenticationFailed("SCRAM: a message out of turn")
        self._state = after


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_MAX_BYTES:
        raise AuthenticationFailed(f"SCRAM: a message of more than {MESSAGE_MAX_BYTES} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("SCRAM: a message is not UTF-8") from None


def _name(escaped: str) -> str:
    """RFC 5802, 5.1: a comma is written =2C, an equals sign =3D."""
    if re.search(r"=(?!2C|3D)", escaped):
        raise AuthenticationFailed("SCRAM: a name has an equals sign that is not escaped")
    return escaped.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed("SCRAM: the proof is not base64") from None


def _xor(proof: bytes, signature: bytes) -> bytes:
    if len(proof) != len(signature):
        raise AuthenticationFailed("SCRAM: the proof has another length than the hash")
    return bytes(a ^ b for a, b in zip(proof, signature, strict=True))
