"""Generated schemas and values: what we say must be what fastavro then does."""

import io
import json
from typing import Any

import fastavro
from hypothesis import event, given, settings
from hypothesis import strategies as st

from goqueue.schema_formats import (
    InvalidContent,
    SchemaSource,
    SchemaType,
    incompatibilities,
    make_validator,
    parse,
)
from tests.unit.schema_formats.avro.generated_schemas import draw_value, evolutions, schemas


def source(schema: Any) -> SchemaSource:
    return SchemaSource(SchemaType.AVRO, json.dumps(schema))


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def read(payload: bytes, writer: Any, reader: Any = None) -> int:
    """Decodes with fastavro; how many bytes it took."""
    stream = io.BytesIO(payload)
    fastavro.schemaless_reader(
        stream,
        fastavro.parse_schema(json.loads(json.dumps(writer))),
        None if reader is None else fastavro.parse_schema(json.loads(json.dumps(reader))),
    )
    return stream.tell()


@given(schemas())
@settings(max_examples=150, deadline=None)
def test_a_schema_reads_itself_and_keeps_its_text(schema: Any) -> None:
    canonical = parse(source(schema)).canonical
    # Another text, for equal ones are not compared.
    assert incompatibilities(SchemaSource(SchemaType.AVRO, canonical + " "), source(schema)) == []
    assert parse(SchemaSource(SchemaType.AVRO, canonical)).canonical == canonical
    fastavro.parse_schema(json.loads(canonical))


@given(evolutions(), st.data())
@settings(max_examples=300, deadline=None)
def test_what_is_compatible_can_be_read(versions: tuple[Any, Any], data: st.DataObject) -> None:
    old, new = versions
    for writer, reader in ((old, new), (new, old)):
        found = incompatibilities(source(reader), source(writer))
        event("incompatible" if found else "compatible")
        if not found:
            value = draw_value(data.draw, writer, {})
            payload = written(writer, value)
            assert read(payload, writer, reader) == len(payload)


@given(schemas(), st.data())
@settings(max_examples=150, deadline=None)
def test_a_written_value_is_valid_and_no_part_of_it(schema: Any, data: st.DataObject) -> None:
    payload = written(schema, draw_value(data.draw, schema, {}))
    check = make_validator(source(schema))
    check(payload)
    wrong = [payload[:length] for length in range(len(payload))] + [payload + b"\0"]
    for changed in wrong:
        assert not is_valid(check, changed)


@given(schemas(), st.binary(max_size=24))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_valid_or_refused(schema: Any, payload: bytes) -> None:
    if is_valid(make_validator(source(schema)), payload):
        assert read(payload, schema) == len(payload)


def is_valid(check: Any, payload: bytes) -> bool:
    try:
        check(payload)
    except InvalidContent:
        return False
    return True
