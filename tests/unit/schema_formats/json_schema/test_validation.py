"""Payloads against their schemas."""

import json
from typing import Any

import pytest

from goqueue.schema_formats import (
    InvalidContent,
    InvalidSchema,
    ResolvedReference,
    SchemaSource,
    SchemaType,
    Validator,
    make_validator,
)

D4 = "http://json-schema.org/draft-04/schema#"
D2020 = "https://json-schema.org/draft/2020-12/schema"


def validator(schema: Any, **references: Any) -> Validator:
    resolved = (ResolvedReference(name, json.dumps(s)) for name, s in references.items())
    return make_validator(SchemaSource(SchemaType.JSON, json.dumps(schema), tuple(resolved)))


@pytest.mark.parametrize(
    ("schema", "good", "bad", "path"),
    [
        ({"type": "object", "required": ["a"]}, b'{"a":1}', b"{}", "/"),
        ({"properties": {"a": {"type": "integer"}}}, b'{"a":1}', b'{"a":"b"}', "/a"),
        ({"items": {"maxLength": 1}}, b'["a"]', b'["a","bb"]', "/1"),
        ({"properties": {"a/b": {"const": 1}}}, b'{"a/b":1}', b'{"a/b":2}', "/a~1b"),
        ({"$schema": D4, "minimum": 1, "exclusiveMinimum": True}, b"2", b"1", "/"),
        ({"$schema": D2020, "prefixItems": [{"type": "null"}]}, b"[null]", b"[1]", "/0"),
        ({"items": [{"type": "null"}]}, b"[null]", b"[1]", "/0"),
        ({"format": "date"}, b'"2024-02-29"', b'"2023-02-29"', "/"),
        ({"multipleOf": 0.1}, b"0.3", b"0.35", "/"),
        ({"type": "integer"}, b"123456789012345678901234567890", b"1.5", "/"),
    ],
)
def test_payloads(schema: Any, good: bytes, bad: bytes, path: str) -> None:
    validate = validator(schema)
    validate(good)
    with pytest.raises(InvalidContent, match=f"^{path}: "):
        validate(bad)


def test_boolean_schemas() -> None:
    validator(True)(b"1")
    with pytest.raises(InvalidContent):
        validator(False)(b"1")


def test_a_payload_may_be_a_view() -> None:
    validator({"type": "integer"})(memoryview(b"17"))  # type: ignore[arg-type]


@pytest.mark.parametrize("payload", [b"", b"{", b"NaN", b'"\xff"', b'{"a":1}x', b"\x00", b"1e999"])
def test_what_is_no_json(payload: bytes) -> None:
    with pytest.raises(InvalidContent, match="not JSON in UTF-8"):
        validator({})(payload)


def test_references_are_looked_into() -> None:
    validate = validator({"$ref": "other.json"}, **{"other.json": {"type": "string"}})
    validate(b'"a"')
    with pytest.raises(InvalidContent, match="is not of type"):
        validate(b"1")


def test_a_reference_known_only_by_its_name_is_looked_into() -> None:
    references = {"leaf.json": {"type": "string"}, "dir/middle.json": {"$ref": "leaf.json"}}
    validate = validator({"items": {"$ref": "dir/middle.json"}}, **references)
    validate(b'["a"]')
    with pytest.raises(InvalidContent, match=r"^/0: "):
        validate(b"[1]")


def test_documents_that_refer_to_each_other() -> None:
    root = {"$id": "http://example.com/root", "properties": {"a": {"$ref": "other"}}}
    validate = validator(root, other={"properties": {"b": {"$ref": "root"}}, "required": ["b"]})
    validate(b'{"a":{"b":{"a":{"b":{}}}}}')
    with pytest.raises(InvalidContent, match=r"^/a/b/a: "):
        validate(b'{"a":{"b":{"a":{}}}}')


def test_deep_payloads_are_refused() -> None:
    validate = validator({"items": {"$ref": "#"}, "type": "array"})
    validate(b"[" * 100 + b"]" * 100)
    for payload in (b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000):
        with pytest.raises(InvalidContent, match="nested too deeply"):
            validate(payload)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", r"^(?=(a+)+$)b", r"^(a+)\1+$(?<!b)"])
def test_no_pattern_holds_the_broker_up(pattern: str) -> None:
    with pytest.raises(InvalidContent):
        validator({"pattern": pattern})(json.dumps("a" * 5_000 + "!").encode())


def test_long_payloads_are_not_quoted_in_full() -> None:
    with pytest.raises(InvalidContent) as refused:
        validator({"type": "integer"})(json.dumps("a" * 1_000_000).encode())
    assert len(str(refused.value)) < 500


def test_a_broken_schema_makes_no_validator() -> None:
    with pytest.raises(InvalidSchema):
        validator({"$ref": "#/nowhere"})
