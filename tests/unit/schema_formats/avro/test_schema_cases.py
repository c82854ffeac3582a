"""What is a schema and what is not, and the text that is kept, as Java's Avro 1.12.1 writes it."""

import json
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from goqueue.schema_formats import (
    InvalidSchema,
    ParsedSchema,
    ResolvedReference,
    SchemaSource,
    SchemaType,
    parse,
)
from goqueue.schema_formats.avro.json_text import MAX_JSON_LEVELS, MAX_SCHEMA_CHARACTERS

CASES = Path(__file__).parent / "cases"
VALID: list[dict[str, str]] = json.loads((CASES / "valid.json").read_text())
INVALID: list[dict[str, str]] = json.loads((CASES / "invalid.json").read_text())


def parsed(schema: Any, *referenced: Any, normalize: bool = False) -> ParsedSchema:
    texts = [one if isinstance(one, str) else json.dumps(one) for one in (schema, *referenced)]
    references = tuple(ResolvedReference(f"ref{n}", text) for n, text in enumerate(texts[1:]))
    return parse(SchemaSource(SchemaType.AVRO, texts[0], references), normalize=normalize)


def record(*fields: Any, **attributes: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", **attributes, "fields": list(fields)}


@pytest.mark.parametrize("case", VALID, ids=lambda case: case["name"])
def test_valid(case: dict[str, str]) -> None:
    first = parsed(case["text"])
    assert first.canonical == case["canonical"]
    assert parsed(first.canonical) == first
    normal = parsed(case["text"], normalize=True)
    assert parsed(first.canonical, normalize=True) == normal
    assert parsed(normal.canonical) == normal


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case["name"])
def test_invalid(case: dict[str, str]) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parsed(case["text"])
    assert str(refused.value).startswith(case["place"])
    assert case["says"] in str(refused.value)


def test_only_a_record_has_a_name() -> None:
    assert parsed(record(namespace="shop")).record_name == "shop.R"
    assert parsed({"type": "enum", "name": "E", "symbols": []}).record_name is None
    assert parsed('"int"').record_name is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (record(namespace="a"), {"type": "record", "name": "a.R", "fields": []}),
        (record(x=1, b={"d": 1, "c": 2}), record(b={"c": 2, "d": 1}, x=1)),
        (record(aliases=["B", "A"]), record(aliases=["A", "B"])),
        (record(doc=""), record()),
        (record(), {**record(), "type": "error"}),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            {"scale": 2, "precision": 4, "logicalType": "decimal", "type": "bytes"},
        ),
        (
            record({"name": "m", "type": {"type": "map", "values": "int"}, "default": {"b": 1}}),
            record({"default": {"b": 1}, "type": {"values": "int", "type": "map"}, "name": "m"}),
        ),
        (
            record({"name": "a", "type": {"type": "string"}, "order": "ascending"}),
            record({"name": "a", "type": "string"}),
        ),
    ],
)
def test_what_differs_in_writing_only_is_equal_when_normalized(one: Any, other: Any) -> None:
    assert parsed(one, normalize=True) == parsed(other, normalize=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (record(doc="a"), record(doc="b")),
        (record(aliases=["A"]), record()),
        (record(owner="x"), record(owner="y")),
        (record({"name": "a", "type": "int", "default": 1}), record({"name": "a", "type": "int"})),
        (["null", "int"], ["int", "null"]),
        ('"string"', {"type": "string", "avro.java.string": "String"}),
    ],
)
def test_what_differs_in_meaning_stays_different(one: Any, other: Any) -> None:
    assert parsed(one, normalize=True).fingerprint != parsed(other, normalize=True).fingerprint


def test_the_fingerprint_is_the_same_everywhere() -> None:
    assert parsed('"string"').fingerprint == (
        "a37d46ce798de493202558b116b4a992f8c1f9cd2747791ba271984e32028b06"
    )


def test_names_of_references_can_be_used() -> None:
    buyer = record({"name": "id", "type": "long"}, name="Buyer", namespace="shop")
    order = record({"name": "buyer", "type": "shop.Buyer"})
    assert parsed(order, buyer).canonical == (
        '{"type":"record","name":"R","fields":[{"name":"buyer","type":"shop.Buyer"}]}'
    )
    with pytest.raises(InvalidSchema, match="add a reference"):
        parsed(order)
    assert parsed(order, buyer).fingerprint != parsed(order, {**buyer, "doc": "x"}).fingerprint


def test_types_inside_a_reference_can_be_used() -> None:
    inner = {"type": "enum", "name": "State", "symbols": ["NEW"]}
    order = record({"name": "state", "type": inner}, name="Order", namespace="shop")
    canonical = parsed({"type": "array", "items": "shop.State"}, order).canonical
    assert canonical == '{"type":"array","items":"shop.State"}'


def test_a_schema_that_is_needed_twice_is_read_once() -> None:
    shared = {"type": "fixed", "name": "Id", "size": 16}
    assert parsed(record({"name": "id", "type": "Id"}), shared, shared)


def test_a_reference_may_not_be_defined_again() -> None:
    shared = {"type": "fixed", "name": "Id", "size": 16}
    with pytest.raises(InvalidSchema, match="'Id' is defined already"):
        parsed(record({"name": "id", "type": shared}), shared)


def test_a_fault_in_a_reference_names_it() -> None:
    with pytest.raises(InvalidSchema, match=r"in the reference 'ref0': /name: '1' is no name"):
        parsed(record(), {"type": "fixed", "name": "1", "size": 1})


def test_deep_nesting_is_refused_or_read_but_never_a_crash() -> None:
    for levels in (60, MAX_JSON_LEVELS, MAX_JSON_LEVELS + 1, 30_000):
        text = '{"type":"array","items":' * levels + '"int"' + "}" * levels
        if levels <= MAX_JSON_LEVELS:
            assert parsed(text).canonical == text
        else:
            with pytest.raises(InvalidSchema, match="nests deeper than 200 levels"):
                parsed(text)
    for text in ("[" * 100_000, '{"a":' * 100_000, '"' + '\\"' * 100_000, "[" * 200 + '"['):
        with pytest.raises(InvalidSchema):
            parsed(text)


def test_records_may_stand_in_each_other_deeper_than_people_write() -> None:
    schema: Any = "int"
    for level in range(64):
        schema = record({"name": "inner", "type": schema}, name=f"R{level}")
    assert parsed(schema).record_name == "R63"


def test_a_huge_text_is_refused() -> None:
    with pytest.raises(InvalidSchema, match=f"the limit is {MAX_SCHEMA_CHARACTERS}"):
        parsed('"' + "a" * MAX_SCHEMA_CHARACTERS + '"')


def test_a_fault_is_told_briefly() -> None:
    with pytest.raises(InvalidSchema) as refused:
        parsed({"type": "fixed", "name": "-" * 100_000, "size": 1})
    assert len(str(refused.value)) < 1100


def test_a_large_schema_takes_a_moment() -> None:
    fields = [{"name": f"field_{n}", "type": ["null", "string"]} for n in range(10_000)]
    begin = time.process_time()
    parsed(record(*fields))
    assert time.process_time() - begin < 2


def test_defaults_in_unions_of_records_are_tried_once() -> None:
    def holding_all(number: int) -> dict[str, Any]:
        deeper = [holding_all(number + 1)] if number < 6 else []
        union = ["null", *(f"U{known}" for known in range(number + 1)), *deeper]
        return record({"name": "f", "type": union}, name=f"U{number}")

    value: Any = "no value"
    for _ in range(60):
        value = {"f": value}
    wrong = {"name": "wrong", "type": "U6", "default": value}
    with pytest.raises(InvalidSchema, match="is no value of type union of null, record U0"):
        parsed(record({"name": "all", "type": holding_all(0)}, wrong))


def test_results_can_be_pickled() -> None:
    result = parsed('"int"')
    assert pickle.loads(pickle.dumps(result)) == result
