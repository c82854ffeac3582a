"""What the two ends of a connection say: frames of a length (4 bytes, big-endian) and MessagePack.

Every question has a number, and its answer the same one; answers come in any order. A watch is a
question with many answers, until it is ended by either side.
"""

import asyncio
import struct
from typing import Annotated, Any, Final

import msgspec

from goqueue.metadata.store import (
    Compare,
    Get,
    GetPrefix,
    KeyValue,
    LeaseId,
    Op,
    WatchBatch,
)
from goqueue.model.errors import (
    CompactedRevision,
    GoQueueError,
    InvalidRequest,
    LeaseNotFound,
    MetadataUnavailable,
)

# etcd's `--max-txn-ops`: what keeps to the bounds of one store keeps to those of the other.
OPERATIONS_MAX: Final = 128
# Above etcd's 1.5 MiB a request.
QUESTION_MAX_BYTES: Final = 2 * 1024 * 1024
# All keys are one answer: a million partitions would fit in.
ANSWER_MAX_BYTES: Final = 512 * 1024 * 1024

LENGTH: Final = struct.Struct(">I")


# --- questions ----------------------------------------------------------------------------


class _Part(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Of a message."""


_Compares = Annotated[tuple[Compare, ...], msgspec.Meta(max_length=OPERATIONS_MAX)]
_Ops = Annotated[tuple[Op, ...], msgspec.Meta(max_length=OPERATIONS_MAX)]


class Transact(_Part, frozen=True, tag="transact"):
    compares: _Compares
    success: _Ops
    failure: _Ops


class GrantLease(_Part, frozen=True, tag="grant"):
    ttl_ms: int


class KeepAlive(_Part, frozen=True, tag="keep-alive"):
    lease: LeaseId


class Revoke(_Part, frozen=True, tag="revoke"):
    lease: LeaseId


class BeginWatch(_Part, frozen=True, tag="watch"):
    prefix: str
    from_revision: int


class EndWatch(_Part, frozen=True, tag="end-watch"):
    """Of the watch that was asked for under the same number."""


Asked = Get | GetPrefix | Transact | GrantLease | KeepAlive | Revoke | BeginWatch | EndWatch


class Question(_Part, frozen=True):
    number: int
    asked: Asked


# --- answers ------------------------------------------------------------------------------


class Found(_Part, frozen=True, tag="found"):
    kvs: tuple[KeyValue, ...]
    revision: int


class Decided(_Part, frozen=True, tag="decided"):
    succeeded: bool
    revision: int
    responses: tuple[tuple[KeyValue, ...], ...]


class Granted(_Part, frozen=True, tag="granted"):
    """A lease, or how long it goes on in ms."""

    number: int


class Done(_Part, frozen=True, tag="done"):
    """There is nothing to say; of a watch: it has ended."""


class Changed(_Part, frozen=True, tag="changed"):
    batch: WatchBatch


class Refused(_Part, frozen=True, tag="refused"):
    kind: str
    message: str
    oldest_revision: int = 0


Said = Found | Decided | Granted | Done | Changed | Refused


class Answer(_Part, frozen=True):
    number: int
    said: Said


# --- errors on their way ------------------------------------------------------------------


_ERRORS: Final[dict[str, type[GoQueueError]]] = {
    "invalid": InvalidRequest,
    "no-lease": LeaseNotFound,
}
_KINDS: Final = {error: kind for kind, error in _ERRORS.items()}
# Every other error. A store that closes is away for who asks over a socket: its process ends,
# theirs does not.
_UNAVAILABLE: Final = "unavailable"
_COMPACTED: Final = "compacted"


def refusal(error: GoQueueError) -> Refused:
    if isinstance(error, CompactedRevision):
        return Refused(_COMPACTED, error.message, error.oldest_revision)
    return Refused(_KINDS.get(type(error), _UNAVAILABLE), error.message)


def error_of(refused: Refused) -> GoQueueError:
    if refused.kind == _COMPACTED:
        return CompactedRevision(refused.message, refused.oldest_revision)
    return _ERRORS.get(refused.kind, MetadataUnavailable)(refused.message)


# --- frames -------------------------------------------------------------------------------

_ENCODER: Final = msgspec.msgpack.Encoder()


class BadFrame(GoQueueError):
    """The other end says what makes no sense: nothing more is read from it."""

    code = "bad_frame"


def framed(message: Question | Answer) -> bytes:
    body = _ENCODER.encode(message)
    return LENGTH.pack(len(body)) + body


async def read_frame(
    reader: asyncio.StreamReader, decoder: "msgspec.msgpack.Decoder[Any]", max_bytes: int
) -> Any:
    """The next message; `asyncio.IncompleteReadError` and `OSError` at the end of the line."""
    (size_bytes,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    if size_bytes > max_bytes:
        raise BadFrame(f"a message of {size_bytes} bytes; the limit is {max_bytes}")
    body = await reader.readexactly(size_bytes)
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadFrame(f"a message that makes no sense: {error}") from None
