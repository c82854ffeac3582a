"""Keys and values that a schema in the registry describes.

The driver chooses the schema, which makes the column's type; tasks read each record with the
schema it was written with, whose id stands before its payload: a zero byte and four of the id.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from goqueue.client.http_api import HttpRefused
from goqueue.client.registry import RegisteredSchema, Registry
from goqueue.model.client_security import NO_SECURITY, ClientSecurity
from goqueue.model.errors import GoQueueError
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.source.nesting import DEPTH_DEFAULT
from goqueue.spark.source.options import FieldFormat, SourceOptions
from goqueue.spark.source.writer_schemas import (
    FOLLOW,
    STOP,
    WriterSchemas,
)

if TYPE_CHECKING:
    from goqueue.spark.source.arrow_rows import FieldDecoder

# Nobody registers more between loading a frame and reading it.
_VERSIONS_TRIED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPlan:
    """How tasks read one field. Pickled."""

    name: str
    format: str
    registry_url: str
    subject: str
    chosen: RegisteredSchema
    skip_undecodable: bool
    # What to do about records of newer versions than the chosen one.
    evolution: str = FOLLOW
    # How often a type may contain itself.
    max_depth: int = DEPTH_DEFAULT
    # Of Protobuf: the message, or the first of its file.
    message: str = ""
    security: ClientSecurity = NO_SECURITY

    def spark_type(self) -> DataType:
        match self.format:
            case "avro":
                from goqueue.spark.source.avro_fields import avro_column, parse_avro

                return avro_column(parse_avro(self.chosen), self.max_depth).type
            case "protobuf":
                from goqueue.spark.source.protobuf_fields import protobuf_column
                from goqueue.spark.source.protobuf_files import named_message, protobuf_file

                message = named_message(protobuf_file(self.chosen), self.message)
                return protobuf_column(message, self.max_depth).type
        from goqueue.spark.source.json_fields import json_type

        return json_type(self.chosen)

    def _writer_schemas(self) -> WriterSchemas:
        return WriterSchemas(
            Registry(self.registry_url, self.security),
            subject=self.subject,
            version=self.chosen.version,
            evolution=self.evolution,
        )

    def decoder(self, partition: str) -> "FieldDecoder":
        """`partition` names it in messages."""
        from pyspark.sql.pandas.types import to_arrow_type

        from goqueue.spark.source.row_decoding import RowDecoder

        schemas = self._writer_schemas()
        arrow_type = to_arrow_type(self.spark_type(), timezone="UTC")
        by_row = RowDecoder(
            f"{self.name} of {partition}",
            self._reader(schemas),
            arrow_type,
            schemas,
            skip_undecodable=self.skip_undecodable,
        )
        from goqueue.spark.source.columnar.formats import (
            avro_decoder,
            json_decoder,
            protobuf_decoder,
        )

        match self.format:
            case "avro":
                return avro_decoder(self.chosen, arrow_type, schemas, by_row)
            # Who stops at newer schemas looks at the schema of each record.
            case "json" if self.evolution != STOP:
                return json_decoder(arrow_type, by_row)
            case "protobuf":
                return protobuf_decoder(self.chosen, self.message, arrow_type, schemas, by_row)
        return by_row

    def _reader(self, schemas: WriterSchemas) -> Callable[[bytes, int], Any]:
        match self.format:
            case "avro":
                from goqueue.spark.source.avro_fields import avro_column, avro_reader, parse_avro

                chosen = parse_avro(self.chosen)
                return avro_reader(chosen, avro_column(chosen, self.max_depth).shape, schemas.of)
            case "protobuf":
                from goqueue.spark.source.protobuf_fields import protobuf_reader

                return protobuf_reader(self.chosen, self.message, self.max_depth, schemas.of)
        from goqueue.spark.source.json_fields import json_reader

        read = json_reader(self.spark_type())
        if self.evolution != STOP:
            return lambda payload, _schema_id: read(payload)

        def read_known(payload: bytes, schema_id: int) -> Any:
            schemas.of(schema_id)
            return read(payload)

        return read_known


def plan_fields(
    options: SourceOptions, columns: Container[str] | None = None
) -> dict[str, FieldPlan]:
    """The fields that the registry describes; asks it for their schemas.

    Of `columns` only: a query need not want all that its frame has.
    """
    wanted = {
        name: given
        for name, given in (("key", options.key), ("value", options.value))
        if given.needs_registry and name in options.columns and (columns is None or name in columns)
    }
    if not wanted:
        return {}
    from goqueue.client.http_address import find_http_urls

    url = options.registry_url or find_http_urls(options.bootstrap_servers, options.security)
    registry = Registry(url, options.security)
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
            security=options.security,
            subject=subject,
            chosen=chosen,
            skip_undecodable=options.skip_undecodable,
            evolution=options.evolution,
            max_depth=options.max_depth,
            message=given.message,
        )
    return plans


def plan_columns(options: SourceOptions, schema: StructType) -> dict[str, FieldPlan]:
    """Plans for the columns that a frame was given when it was loaded.

    The registry may have newer versions since: then it is the version that has these columns.
    """
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    plans = plan_fields(options, types)
    return {name: _with_columns(plan, types[name]) for name, plan in plans.items()}


def _with_columns(plan: FieldPlan, wanted: str) -> FieldPlan:
    newest = plan.chosen.version or 1
    registry = Registry(plan.registry_url, plan.security)
    for version in range(newest, max(newest - _VERSIONS_TRIED, 0), -1):
        if version != newest:
            try:
                chosen = registry.by_version(plan.subject, str(version))
            except HttpRefused:  # deleted
                continue
            plan = replace(plan, chosen=chosen)
        if plan.spark_type().simpleString() == wanted:
            return plan
    raise InvalidOption(
        f"no version of subject {plan.subject!r} has the columns of this frame, {wanted}; load it "
        "again to get those of today, and give no schema of your own"
    )


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
