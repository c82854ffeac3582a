"""Which formats and schemas are decoded whole; all others keep the decoder of single records."""

from typing import TYPE_CHECKING

import pyarrow as pa

from goqueue.client.registry import RegisteredSchema
from goqueue.spark.native_code import load_compiled
from goqueue.spark.source.avro_fields import parse_avro
from goqueue.spark.source.columnar import framed_payloads
from goqueue.spark.source.columnar.avro_program import AvroProgram
from goqueue.spark.source.columnar.decoder import ColumnDecoder
from goqueue.spark.source.columnar.json_decoder import JsonColumnDecoder
from goqueue.spark.source.columnar.memory import ColumnMemory, NoColumn
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

    return ColumnDecoder(column, program_of, by_row)
