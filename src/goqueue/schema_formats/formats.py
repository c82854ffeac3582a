"""One door to all formats: the schema's type says which is asked."""

from importlib import import_module
from typing import Final, Protocol, cast

from goqueue.model.schemas.formats import (
    Incompatibility,
    ParsedSchema,
    SchemaSource,
    SchemaType,
    Validator,
)

_PACKAGES: Final = {
    SchemaType.AVRO: "goqueue.schema_formats.avro",
    SchemaType.JSON: "goqueue.schema_formats.json_schema",
    SchemaType.PROTOBUF: "goqueue.schema_formats.protobuf",
}


class Format(Protocol):
    def parse(self, source: SchemaSource, *, normalize: bool = False) -> ParsedSchema: ...
    def incompatibilities(
        self, reader: SchemaSource, writer: SchemaSource
    ) -> list[Incompatibility]: ...
    def make_validator(self, source: SchemaSource) -> Validator: ...


def _format_of(schema_type: SchemaType) -> Format:
    return cast(Format, import_module(_PACKAGES[schema_type]))


def parse(source: SchemaSource, *, normalize: bool = False) -> ParsedSchema:
    """Raises `InvalidSchema`. With `normalize`, what differs only in writing becomes equal."""
    return _format_of(source.type).parse(source, normalize=normalize)


def incompatibilities(reader: SchemaSource, writer: SchemaSource) -> list[Incompatibility]:
    """Why data written with `writer` cannot be read with `reader`; nothing when it can."""
    if reader.type is not writer.type:
        message = f"the reader's schema is {reader.type}, the writer's is {writer.type}"
        return [Incompatibility("TYPE_MISMATCH", "/", message)]
    return _format_of(reader.type).incompatibilities(reader, writer)


def make_validator(source: SchemaSource) -> Validator:
    """What checks a payload, the bytes after Confluent's prefix; raises `InvalidContent`."""
    return _format_of(source.type).make_validator(source)


# A step takes ten nanoseconds or so. Avro's and Protobuf's checks are linear in the payload. Avro's
# is ours and in Python, and fields without a byte of their own take a step each; Protobuf's library
# is quick, but what it does not know is walked through in Python.
_AVRO_STEPS: Final = 20
_AVRO_CHARACTERS_PER_STEP: Final = 50
_PROTOBUF_STEPS: Final = 50


def bound_of_work(source: SchemaSource) -> int | None:
    """How many steps the check of a payload takes for each of its bytes; None without a bound."""
    if source.type is SchemaType.AVRO:
        return _AVRO_STEPS + len(source.text) // _AVRO_CHARACTERS_PER_STEP
    if source.type is SchemaType.PROTOBUF:
        return _PROTOBUF_STEPS
    from goqueue.schema_formats.json_schema import bound_of_work as bound_of_json

    return bound_of_json(source)


def make_bounded_validator(source: SchemaSource, steps: int) -> Validator:
    """As `make_validator`, for a process that has other work and a schema with this bound.

    It may raise `NotExplained` instead of `InvalidContent`.
    """
    if source.type is not SchemaType.JSON:
        return make_validator(source)
    from goqueue.schema_formats.json_schema import make_bounded_validator as bounded_for_json

    return bounded_for_json(source, steps)
