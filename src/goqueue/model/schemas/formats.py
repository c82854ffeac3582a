"""What goes into a format's functions and what comes out."""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from goqueue.model.errors import GoQueueError


class SchemaType(StrEnum):
    """As the registry's API names them; without a type, a schema is Avro."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class ResolvedReference(NamedTuple):
    """A schema that another one uses, under the name it is used by."""

    name: str
    text: str


class SchemaSource(NamedTuple):
    """A schema as sent, with all that it refers to; what is needed first stands first."""

    type: SchemaType
    text: str
    references: tuple[ResolvedReference, ...] = ()


class ParsedSchema(NamedTuple):
    """`canonical` is what is stored and given out. `fingerprint` is equal for equal schemas.

    `record_name` is the full name of the record or message that the schema is about, if it has one.
    """

    canonical: str
    fingerprint: str
    record_name: str | None = None


class Incompatibility(NamedTuple):
    """One reason why a reader cannot read. `kind` is an upper-case word, as Confluent's are."""

    kind: str
    path: str
    message: str


class InvalidSchema(GoQueueError):
    """The text is no schema of its type, or names something that is not there."""

    code = "invalid_schema"


class InvalidContent(GoQueueError):
    """A payload does not fit its schema."""

    code = "invalid_content"


class NotExplained(GoQueueError):
    """A payload does not fit its schema; to say why is too much work for the one who asked."""

    code = "invalid_content"


Validator = Callable[[bytes], None]
