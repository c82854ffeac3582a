"""Records of TLS 1.3 written by hand: what OpenSSL's clients never send."""

import ssl
import struct
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

_HANDSHAKE: Final = 22
_DATA: Final = 23
# RFC 8446, 4.6.3: the other side is to change its keys, too.
_KEY_UPDATE_REQUESTED: Final = b"\x18\x00\x00\x01\x01"


def telling_context(ca: Path, told: Path) -> ssl.SSLContext:
    """Of a client that writes its secrets down there."""
    context = ssl.create_default_context(cafile=str(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.keylog_filename = str(told)
    return context


class RecordWriter:
    """In place of a client that has shaken hands, with AES of 128 bits."""

    def __init__(self, told: Path) -> None:
        [line] = [
            line for line in told.read_text().splitlines() if "CLIENT_TRAFFIC_SECRET_0" in line
        ]
        self._take(bytes.fromhex(line.split()[-1]))

    def data(self, content: bytes) -> bytes:
        return self._record(_DATA, content)

    def key_update(self) -> bytes:
        made = self._record(_HANDSHAKE, _KEY_UPDATE_REQUESTED)
        self._take(_expanded(self._secret, b"traffic upd", 32))
        return made

    def _take(self, secret: bytes) -> None:
        self._secret = secret
        self._cipher = AESGCM(_expanded(secret, b"key", 16))
        self._iv = int.from_bytes(_expanded(secret, b"iv", 12))
        self._written = 0

    def _record(self, kind: int, content: bytes) -> bytes:
        header = b"\x17\x03\x03" + struct.pack(">H", len(content) + 1 + 16)
        nonce = (self._iv ^ self._written).to_bytes(12)
        self._written += 1
        return header + self._cipher.encrypt(nonce, content + bytes([kind]), header)


def _expanded(secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label (RFC 8446, 7.1)."""
    name = b"tls13 " + label
    info = struct.pack(">HB", size, len(name)) + name + b"\0"
    return HKDFExpand(SHA256(), size, info).derive(secret)
