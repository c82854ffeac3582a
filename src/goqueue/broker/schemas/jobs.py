"""What the registry asks of its worker process, and what that answers; both as MessagePack."""

from typing import Final

import msgspec

from goqueue.model.schemas.formats import Incompatibility, ParsedSchema, SchemaSource

# Before each message, its size.
SIZE_BYTES: Final = 4


class ParseJob(msgspec.Struct, frozen=True, array_like=True, tag="parse"):
    source: SchemaSource
    normalize: bool


class CompareJob(msgspec.Struct, frozen=True, array_like=True, tag="compare"):
    """Is `new` compatible with each of `olds`, in the wanted directions?"""

    new: SchemaSource
    olds: list[SchemaSource]
    is_backward: bool
    is_forward: bool


class DescribeJob(msgspec.Struct, frozen=True, array_like=True, tag="describe"):
    """A Protobuf schema is wanted as its compiled descriptor, an Avro schema without references."""

    source: SchemaSource


class Parsed(msgspec.Struct, frozen=True, array_like=True, tag="parsed"):
    schema: ParsedSchema


class Compared(msgspec.Struct, frozen=True, array_like=True, tag="compared"):
    """The position of the first of `olds` that does not fit, and why; -1 if all do."""

    position: int
    reasons: list[Incompatibility]


class Described(msgspec.Struct, frozen=True, array_like=True, tag="described"):
    """The descriptor in Base64, or the schema's text."""

    text: str


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The schema's fault."""

    reason: str


class Broken(msgspec.Struct, frozen=True, array_like=True, tag="broken"):
    """Ours: a format has failed on a schema in a way that it should not."""

    reason: str


Job = ParseJob | CompareJob | DescribeJob
JobAnswer = Parsed | Compared | Described | Refused | Broken

encode: Final = msgspec.msgpack.Encoder().encode
JOB: Final[msgspec.msgpack.Decoder[Job]] = msgspec.msgpack.Decoder(Job)
JOB_ANSWER: Final[msgspec.msgpack.Decoder[JobAnswer]] = msgspec.msgpack.Decoder(JobAnswer)
