"""Why a handshake failed, in words that tell what to do."""

from collections.abc import Mapping
from typing import Final

from OpenSSL import SSL

# The first byte of TLS (RFC 8446, 5.1: handshake).
_HANDSHAKE: Final = b"\x16"
# Fatal: unexpected message (RFC 8446, 6.2). OpenSSL says nothing to those who do not speak TLS, and
# Kafka's clients know that a port speaks it by what they take for the length of an answer.
NO_TLS_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x0a"

# By OpenSSL's reasons; alerts are what the client said.
_WORDS: Final[Mapping[str, str]] = {
    "peer did not return a certificate": "it showed no certificate, which tls.client.auth requires",
    "tlsv1 alert unknown ca": "it does not trust the CA of this broker's certificate",
    "ssl/tls alert bad certificate": "it does not accept this broker's certificate",
    "ssl/tls alert certificate unknown": "it does not accept this broker's certificate",
    "ssl/tls alert certificate expired": "this broker's certificate is expired",
    "unsupported protocol": "it speaks only versions of TLS before 1.2",
    "no shared cipher": "it knows none of the ciphers that are offered",
}


def speaks_tls(first_bytes: bytes) -> bool:
    return first_bytes[:1] == _HANDSHAKE


def words(error: SSL.Error, refusal: str | None, first_bytes: bytes) -> str:
    """`refusal`: what is wrong with the client's certificate."""
    if not speaks_tls(first_bytes):
        return "it does not speak TLS, and this port does nothing else"
    if refusal is not None:
        return f"its certificate is refused: {refusal}"
    reason = reason_of(error)
    return "TLS handshake failed: " + _WORDS.get(reason, reason)


def reason_of(error: SSL.Error) -> str:
    """OpenSSL's own word for it: the innermost of those in its list."""
    told = error.args[0] if error.args else ()
    return str(told[0][-1]) if isinstance(told, list) and told else str(error)
