"""What is a schema and what is not, how it is written down, and how long that may take."""

import json
from pathlib import Path
from typing import Any

import pytest

from goqueue.schema_formats import InvalidSchema, ResolvedReference, SchemaSource, SchemaType, parse
from goqueue.schema_formats.json_schema.json_text import MAX_NESTING_LEVELS

CASES = Path(__file__).parent / "cases"


def cases(table: str) -> list[Any]:
    return [
        pytest.param(case, id=case["name"])
        for case in json.loads((CASES / f"{table}.json").read_text())
    ]


def source(text: str, references: dict[str, Any] | None = None) -> SchemaSource:
    resolved = (ResolvedReference(name, json.dumps(s)) for name, s in (references or {}).items())
    return SchemaSource(SchemaType.JSON, text, tuple(resolved))


@pytest.mark.parametrize("case", cases("parse_good"))
def test_schemas(case: dict[str, Any]) -> None:
    parsed = parse(source(json.dumps(case["schema"], indent=2), case.get("references")))
    assert json.loads(parsed.canonical) == case["schema"]
    assert parsed.canonical == case.get("canonical", parsed.canonical)
    assert "\n" not in parsed.canonical


@pytest.mark.parametrize("case", cases("parse_bad"))
def test_what_is_no_schema(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse(source(case["text"], case.get("references")))
    assert case["says"] in str(refused.value)


def test_normalising_sorts_keys() -> None:
    one = source('{"type": "object", "properties": {"b": {}, "a": {"type": "string"}}}')
    other = source('{"properties": {"a": {"type": "string"}, "b": {}}, "type": "object"}')
    assert parse(one).fingerprint != parse(other).fingerprint
    assert parse(one, normalize=True) == parse(other, normalize=True)
    assert parse(one, normalize=True).canonical.startswith('{"properties":{"a":')


def test_fingerprint_covers_references() -> None:
    text = '{"$ref": "other.json"}'
    one = parse(source(text, {"other.json": {"type": "string"}}))
    same = parse(source('{"$ref":"other.json"}', {"other.json": {"type": "string"}}))
    other = parse(source(text, {"other.json": {"type": "number"}}))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert len(one.fingerprint) == 64


def test_the_title_names_the_record() -> None:
    assert parse(source('{"title": "Order"}')).record_name == "Order"
    assert parse(source("{}")).record_name is None
    assert parse(source("true")).record_name is None


def nested(levels: int) -> str:
    return '{"not":' * levels + "{}" + "}" * levels


def test_nesting_is_bounded() -> None:
    parse(source(nested(MAX_NESTING_LEVELS - 1)))
    for text in (nested(MAX_NESTING_LEVELS), nested(100_000), "[" * 1_000_000):
        with pytest.raises(InvalidSchema, match=f"deeper than {MAX_NESTING_LEVELS} levels"):
            parse(source(text))


def test_a_chain_of_references_may_be_longer_than_the_stack() -> None:
    length = 3_000
    definitions: dict[str, Any] = {
        f"d{i}": {"$ref": f"#/definitions/d{i + 1}"} for i in range(length)
    }
    definitions[f"d{length}"] = {"type": "string"}
    parse(source(json.dumps({"$ref": "#/definitions/d0", "definitions": definitions})))
