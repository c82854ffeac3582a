"""Comparisons that could take for ever, run too deep or tell too much."""

import json
from typing import Any

from goqueue.schema_formats import (
    Incompatibility,
    ResolvedReference,
    SchemaSource,
    SchemaType,
    incompatibilities,
)
from goqueue.schema_formats.avro.compatibility import MAX_FINDINGS


def compare(reader: Any, writer: Any) -> list[Incompatibility]:
    return incompatibilities(
        SchemaSource(SchemaType.AVRO, json.dumps(reader)),
        SchemaSource(SchemaType.AVRO, json.dumps(writer)),
    )


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    listed = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": listed}


def chain(length: int, end: str, uses: int = 1) -> list[Any]:
    """Records that hold the one before, `uses` times; the first one holds `end`."""
    records: list[Any] = [record("R0", ("v", end))]
    for index in range(1, length):
        fields = [(f"f{use}", f"R{index - 1}") for use in range(uses)]
        records.append(record(f"R{index}", *fields))
    return records


def test_a_long_chain_of_types_is_compared() -> None:
    def last_of_chain(end: str) -> SchemaSource:
        *before, last = [json.dumps(one) for one in chain(3000, end)]
        references = tuple(ResolvedReference(text, text) for text in before)
        return SchemaSource(SchemaType.AVRO, last, references)

    assert incompatibilities(last_of_chain("long"), last_of_chain("int")) == []
    (found,) = incompatibilities(last_of_chain("int"), last_of_chain("long"))
    assert found.path == "/fields/0/type" * 3000


def test_large_unions_are_compared_by_name() -> None:
    records = chain(1000, "int")
    assert compare(records, [*records, "null"])[0].path == "/1000"
    assert compare(["null", *records], records) == []


def nested(records: list[Any]) -> dict[str, Any]:
    """The last record of a chain, with the others defined in fields that come before."""
    top = dict(records[-1])
    definitions = [
        {"name": f"d{index}", "type": {"type": "array", "items": item}}
        for index, item in enumerate(records[:-1])
    ]
    return {**top, "fields": definitions + top["fields"]}


def test_findings_that_multiply_are_cut() -> None:
    found = compare(nested(chain(60, "int", 2)), nested(chain(60, "long", 2)))
    assert len(found) == MAX_FINDINGS


def test_unions_of_very_many_records_are_not_compared_for_ever() -> None:
    reader = [record(f"a{index}.R", ("v", "int")) for index in range(350)]
    writer = [record(f"b{index}.R", ("v", "string")) for index in range(350)]
    assert [finding.kind for finding in compare(reader, writer)] == ["TOO_MANY_COMPARISONS"]


def test_types_in_cycles_of_different_lengths() -> None:
    def cycle(length: int, value: str) -> dict[str, Any]:
        inner: Any = "N"
        for _ in range(length - 1):
            inner = {"type": "array", "items": [inner]}
        return record("N", ("v", value), ("next", {"type": "array", "items": [inner]}))

    assert compare(cycle(7, "long"), cycle(7, "int")) == []
    assert compare(cycle(7, "int"), cycle(11, "int"))


def test_a_schema_whose_alias_is_another_field_reads_itself() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": "int", "aliases": ["b"]},
            {"name": "b", "type": "int"},
        ],
    }
    assert compare(schema, schema) == []
    other = {**schema, "doc": "newer"}
    assert [finding.kind for finding in compare(schema, other)] == ["AMBIGUOUS_FIELD"]


def test_messages_name_what_differs() -> None:
    reader = record("R", ("e", {"type": "enum", "name": "E", "symbols": ["A"]}), ("x", "int"))
    writer = record("R", ("e", {"type": "enum", "name": "E", "symbols": ["A", "C", "B"]}))
    enum, field = compare(reader, writer)
    assert enum.message == "the reader's enum E has no default and lacks B, C"
    assert "'x' has no default" in field.message
