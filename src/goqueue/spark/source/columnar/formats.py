"""Which formats and schemas are decoded whole; all others keep the decoder of single records."""

from typing import TYPE_CHECKING

import pyarrow as pa

from goqueue.client.registry import RegisteredSchema
from goqueue.spark.native_code import load_compiled
from goqueue.spark.source.avro_fields import parse_avro
from goqueue.spark.source.columnar import framed_payloads, protobuf_values
from goqueue.spark.source.columnar.avro_program import AvroProgram
from goqueue.spark.source.columnar.decoder import ColumnDecoder
from goqueue.spark.source.columnar.json_decoder import JsonColumnDecoder
from goqueue.spark.source.columnar.memory import ColumnMemory, NoColumn
from goqueue.spark.source.columnar.protobuf_program import ProtobufProgram
from goqueue.spark.source.protobuf_files import messages_at, named_message, protobuf_file
from goqueue.spark.source.writer_schemas import WriterSchemas

if TYPE_CHECKING:
    from goqueue.spark.source.arrow_rows import FieldDecoder


def json_decoder(arrow_type: pa.DataType, by_row: "FieldDecoder") -> "FieldDecoder":
    try:
        return JsonColumnDecoder(arrow_type, by_row)
    except NoColumn:
        return by_row


def avro_decoder(
    chosen: RegisteredSchema,
    arrow_type: pa.DataType,
    schemas: WriterSchemas,
    by_row: "FieldDecoder",
) -> "FieldDecoder":
    reader = parse_avro(chosen)
    try:
        column = ColumnMemory(arrow_type)
        # What the chosen schema cannot have, its older versions do not have either.
        AvroProgram(reader, reader, column)
    except NoColumn:
        return by_row

    load_compiled(framed_payloads.__file__, framed_payloads.load_avro)

    def program_of(schema_id: int) -> AvroProgram:
        return AvroProgram(parse_avro(schemas.of(schema_id)), reader, column)

    return ColumnDecoder(column, framed_payloads.read_avro_rows, program_of, by_row)


def protobuf_decoder(
    chosen: RegisteredSchema,
    name: str,
    arrow_type: pa.DataType,
    schemas: WriterSchemas,
    by_row: "FieldDecoder",
) -> "FieldDecoder":
    message = named_message(protobuf_file(chosen), name)
    try:
        column = ColumnMemory(arrow_type)
        program = ProtobufProgram(message, column)
    except NoColumn:
        return by_row

    load_compiled(protobuf_values.__file__, protobuf_values.load_protobuf)

    def program_of(schema_id: int) -> ProtobufProgram:
        # Whatever it was written with is read as the chosen message, if it is of that name.
        if message.full_name not in messages_at(protobuf_file(schemas.of(schema_id)), (0,)):
            raise NoColumn("the first message of the schema is another one")
        return program

    return ColumnDecoder(column, protobuf_values.read_protobuf_rows, program_of, by_row)
