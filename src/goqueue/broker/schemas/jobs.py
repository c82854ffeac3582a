"""What is asked of the processes that look at schemas, and what they answer, as MessagePack."""

from typing import Final

import msgspec

from goqueue.model.schemas.formats import Incompatibility, ParsedSchema, SchemaSource

# Before each message, its size.
SIZE_BYTES: Final = 4
# What a process says first: it has been started, and waits for jobs.
READY: Final = b"!"


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


class AssessJob(msgspec.Struct, frozen=True, array_like=True, tag="assess"):
    """How much work is it to hold a payload against this schema?"""

    source: SchemaSource


class LoadJob(msgspec.Struct, frozen=True, array_like=True, tag="load"):
    """The schema that later checks name by its key."""

    key: str
    source: SchemaSource


class CheckJob(msgspec.Struct, frozen=True, array_like=True, tag="check"):
    """Does the payload fit? The process ends itself when it takes more processor time."""

    key: str
    payload: bytes
    cpu_seconds_max: float


class Parsed(msgspec.Struct, frozen=True, array_like=True, tag="parsed"):
    schema: ParsedSchema


class Compared(msgspec.Struct, frozen=True, array_like=True, tag="compared"):
    """The position of the first of `olds` that does not fit, and why; -1 if all do."""

    position: int
    reasons: list[Incompatibility]


class Described(msgspec.Struct, frozen=True, array_like=True, tag="described"):
    """The descriptor in Base64, or the schema's text."""

    text: str


class Assessed(msgspec.Struct, frozen=True, array_like=True, tag="assessed"):
    """Steps for each byte of a payload; none if there is no bound."""

    steps: int | None


class Loaded(msgspec.Struct, frozen=True, array_like=True, tag="loaded"):
    """Checks may follow."""


class NotLoaded(msgspec.Struct, frozen=True, array_like=True, tag="not loaded"):
    """The key is not known here, or no longer."""


class Checked(msgspec.Struct, frozen=True, array_like=True, tag="checked"):
    """Why the payload does not fit, or nothing if it does; and the processor time it took."""

    reason: str | None
    cpu_ms: float


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The schema's fault."""

    reason: str


class Broken(msgspec.Struct, frozen=True, array_like=True, tag="broken"):
    """Ours: a format has failed on a schema in a way that it should not."""

    reason: str


Job = ParseJob | CompareJob | DescribeJob | AssessJob | LoadJob | CheckJob
JobAnswer = (
    Parsed | Compared | Described | Assessed | Loaded | NotLoaded | Checked | Refused | Broken
)

encode: Final = msgspec.msgpack.Encoder().encode
JOB: Final[msgspec.msgpack.Decoder[Job]] = msgspec.msgpack.Decoder(Job)
JOB_ANSWER: Final[msgspec.msgpack.Decoder[JobAnswer]] = msgspec.msgpack.Decoder(JobAnswer)
