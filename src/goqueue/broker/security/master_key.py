"""The key that secrets are made from, so that they need not be kept.

It lies in a file that only the broker may read, or is given by the environment. All brokers of a
cluster have the same one.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from goqueue.model.security.errors import MasterKeyUnusable
from goqueue.storage.data_directory import MASTER_KEY_FILE

ENVIRONMENT: Final = "GOQUEUE_MASTER_KEY"
FILE_NAME: Final = MASTER_KEY_FILE
KEY_BYTES: Final = 32
_OWNER_ONLY: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class MasterKey:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def secret(self, purpose: str, name: str) -> bytes:
        """32 bytes that only those with the key can tell."""
        return hmac.digest(self._key, f"{purpose}\0{name}".encode(), hashlib.sha256)

    @classmethod
    def load(cls, path: Path, *, may_make: bool) -> "MasterKey":
        """That of the environment, or of the file; `may_make`: a file that is not there is made."""
        text = os.environ.get(ENVIRONMENT)
        if text is not None:
            return cls(_decoded(text, ENVIRONMENT))
        try:
            return cls(_read(path))
        except FileNotFoundError:
            if not may_make:
                raise MasterKeyUnusable(
                    f"{path}: there is no master key; copy that of another broker there, or make "
                    "one for all of them with `goqueue secure init`"
                ) from None
        return cls(make_master_key(path))


def make_master_key(path: Path) -> bytes:
    """A new one in a new file; `FileExistsError` where there is one."""
    key = secrets.token_bytes(KEY_BYTES)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY)
    with os.fdopen(file, "wb") as opened:
        opened.write(base64.b64encode(key) + b"\n")
        opened.flush()
        os.fsync(opened.fileno())
    return key


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & _OTHERS:
            raise MasterKeyUnusable(
                f"{path}: others than its owner may use the master key "
                f"(mode {stat.S_IMODE(mode):o}); run: chmod 600 {path}"
            )
        return _decoded(file.read(1_024).decode("ascii", "replace"), str(path))


def _decoded(text: str, source: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise MasterKeyUnusable(f"{source}: is not a master key, {KEY_BYTES} bytes in base64")
    return key
