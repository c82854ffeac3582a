"""Why a handshake failed, in words that tell what to do."""

import ssl
from collections.abc import Mapping
from typing import Final

# The first byte of TLS (RFC 8446, 5.1: handshake).
_HANDSHAKE: Final = b"\x16"
# Fatal: unexpected message (RFC 8446, 6.2). OpenSSL says nothing to those who do not speak TLS, and
# Kafka's clients know that a port speaks it by what they take for the length of an answer.
NO_TLS_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x0a"

# By OpenSSL's names; alerts are what the client said.
_WORDS: Final[Mapping[str, str]] = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate, which tls.client.auth requires",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the CA of this broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this broker's certificate is expired",
    "UNSUPPORTED_PROTOCOL": "it speaks only versions of TLS before 1.2",
    "NO_SHARED_CIPHER": "it knows none of the ciphers that are offered",
}


def speaks_tls(first_bytes: bytes) -> bool:
    return first_bytes[:1] == _HANDSHAKE


def words(error: ssl.SSLError, first_bytes: bytes) -> str:
    if not speaks_tls(first_bytes):
        return "it does not speak TLS, and this port does nothing else"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    reason = error.reason or ""
    return "TLS handshake failed: " + _WORDS.get(reason, reason.lower().replace("_", " "))
