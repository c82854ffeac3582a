"""Keys and values that a schema in the registry describes.

The driver chooses the schema, which makes the column's type; tasks read each record with the
schema it was written with, whose id stands before its payload: a zero byte and four of the id.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import BinaryType, DataType, StringType

from goqueue.client.http_api import HttpRefused
from goqueue.client.registry import RegisteredSchema, Registry
from goqueue.model.errors import GoQueueError, InvalidRecord
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.source.options import FieldFormat, SourceOptions

if TYPE_CHECKING:
    from goqueue.spark.source.arrow_rows import Column, FieldDecoder
    from goqueue.spark.source.record_scan import Numbers

_PREFIX: Final = struct.Struct(">bi")
_MAGIC: Final = 0
_NOT_FOUND: Final = 404
# Arrow's own errors are of these kinds, too.
_ARROW_REFUSALS: Final = (ValueError, TypeError, OverflowError)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPlan:
    """How tasks read one field. Pickled."""

    name: str
    format: str
    registry_url: str
    chosen: RegisteredSchema
    skip_undecodable: bool

    def spark_type(self) -> DataType:
        if self.format == "avro":
            from goqueue.spark.source.avro_fields import avro_type, parse_avro

            return avro_type(parse_avro(self.chosen))
        from goqueue.spark.source.json_fields import json_type

        return json_type(self.chosen)

    def decoder(self, subject: str) -> "FieldDecoder":
        """`subject` names the partition in messages."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        read = self._reader()
        arrow_type = to_arrow_type(self.spark_type(), timezone="UTC")

        def undecodable(offset: int, error: Exception) -> None:
            """Null in its place, where the reader asked for that."""
            if not self.skip_undecodable:
                raise InvalidRecord(
                    f"{self.name} of {subject} at offset {offset} is not what its schema says: "
                    f"{error}; mode=permissive makes such ones null"
                ) from error

        def decode_one(content: bytes | None, offset: int) -> Any:
            if content is None:
                return None
            try:
                return read(*_unwrapped(content))
            except GoQueueError as error:
                # Bytes that only look like a schema's id; all else is the registry's trouble.
                if not isinstance(error, HttpRefused) or error.status != _NOT_FOUND:
                    raise
                return undecodable(offset, error)
            except Exception as error:  # decoders raise what they like on what they cannot read
                return undecodable(offset, error)

        def fitting(value: Any, offset: int) -> Any:
            try:
                pa.array([value], arrow_type)
            except _ARROW_REFUSALS as error:
                return undecodable(offset, error)
            return value

        def decode(column: "Column", offsets: "Numbers") -> "Column":
            pairs = zip(column.to_pylist(), offsets.tolist(), strict=True)
            values = [decode_one(*pair) for pair in pairs]
            try:
                return pa.array(values, arrow_type)
            except _ARROW_REFUSALS:  # such as a decimal of more digits than the schema says
                numbered = zip(values, offsets.tolist(), strict=True)
                return pa.array([fitting(*pair) for pair in numbered], arrow_type)

        return decode

    def _reader(self) -> Callable[[bytes, int], Any]:
        if self.format == "avro":
            from goqueue.spark.source.avro_fields import avro_reader, parse_avro

            return avro_reader(parse_avro(self.chosen), Registry(self.registry_url).by_id)
        from goqueue.spark.source.json_fields import json_reader

        read = json_reader(self.spark_type())
        return lambda payload, _schema_id: read(payload)


def plan_fields(options: SourceOptions) -> dict[str, FieldPlan]:
    """The fields that the registry describes; asks it for their schemas."""
    wanted = {
        name: given
        for name, given in (("key", options.key), ("value", options.value))
        if given.needs_registry and name in options.columns
    }
    if not wanted:
        return {}
    from goqueue.client.http_address import find_http_url

    url = options.registry_url or find_http_url(options.bootstrap_servers)
    registry = Registry(url)
    plans = {}
    for name, given in wanted.items():
        subject = given.subject or _subject_of(options, name)
        try:
            chosen = registry.by_version(subject, given.version)
        except GoQueueError as error:
            raise InvalidOption(
                f"{name}.format={given.format}: subject {subject!r} at {url}: {error}; register a "
                f"schema, name another with {name}.subject, or read binary"
            ) from error
        _check_type(name, given, chosen, subject)
        plans[name] = FieldPlan(
            name=name,
            format=given.format,
            registry_url=url,
            chosen=chosen,
            skip_undecodable=options.skip_undecodable,
        )
    return plans


def field_types(options: SourceOptions, plans: dict[str, FieldPlan]) -> dict[str, DataType]:
    def kind(name: str, given: FieldFormat) -> DataType:
        if name in plans:
            return plans[name].spark_type()
        return StringType() if given.format == "string" else BinaryType()

    return {"key": kind("key", options.key), "value": kind("value", options.value)}


def _subject_of(options: SourceOptions, name: str) -> str:
    topics = options.choice.names or tuple(options.choice.partitions or ())
    if len(topics) != 1:
        raise InvalidOption(
            f"{name}.subject: name the schema's subject, for not exactly one topic is read"
        )
    return f"{topics[0]}-{name}"


def _check_type(name: str, given: FieldFormat, found: RegisteredSchema, subject: str) -> None:
    if found.type.lower() != given.format:
        raise InvalidOption(
            f"{name}.format={given.format}: the schema of subject {subject!r} is {found.type}"
        )


def _unwrapped(content: bytes) -> tuple[bytes, int]:
    """(payload, schema id)"""
    if len(content) < _PREFIX.size:
        raise ValueError("it is too short for a schema id")
    magic, schema_id = _PREFIX.unpack_from(content)
    if magic != _MAGIC:
        raise ValueError("it does not begin with a schema id")
    return content[_PREFIX.size :], schema_id
