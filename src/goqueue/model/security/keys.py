"""Keys of users: for HTTP (`Authorization: Bearer gqk_…`) and for SQS (Signature Version 4)."""

from enum import Enum
from typing import Final

import msgspec

# Before the id and the secret of an API key: found in logs and code by those who look for leaks.
TOKEN_PREFIX: Final = "gqk_"
LABEL_MAX_LENGTH: Final = 200


class KeyKind(Enum):
    # Shown once, kept as a hash.
    API = "api"
    # The secret is made from the master key and the key's id, and not kept at all.
    SQS = "sqs"


class AccessKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`digest` is that of an API key's secret; keys of SQS have none."""

    id: str
    kind: KeyKind
    user: str
    digest: bytes = b""
    label: str = ""
    created_ms: int = 0
    expires_ms: int | None = None
