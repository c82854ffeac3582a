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
