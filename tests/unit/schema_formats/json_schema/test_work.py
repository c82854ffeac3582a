"""Which schemas have a bound of work, and that the bound holds."""

import json
from contextlib import suppress
from time import thread_time
from typing import Any

import pytest

from goqueue.schema_formats import (
    InvalidContent,
    NotExplained,
    SchemaSource,
    SchemaType,
    bound_of_work,
    make_bounded_validator,
)

D2020 = "https://json-schema.org/draft/2020-12/schema"
SELF = {"$ref": "#"}


def source(schema: Any) -> SchemaSource:
    return SchemaSource(SchemaType.JSON, json.dumps(schema))


def chain(links: int, keyword: str) -> dict[str, Any]:
    """Each definition names the next one twice."""
    definitions: dict[str, Any] = {f"d{links}": {"type": "string"}}
    for number in range(links):
        definitions[f"d{number}"] = {keyword: [{"$ref": f"#/definitions/d{number + 1}"}] * 2}
    return {"allOf": [{"$ref": "#/definitions/d0"}], "definitions": definitions}


ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{6}$"},
        "at": {"type": "string", "format": "date-time"},
        "state": {"enum": ["new", "paid", "sent"]},
        "lines": {
            "type": "array",
            "items": {"type": "object", "required": ["sku"], "additionalProperties": False}
            | {"properties": {"sku": {"type": "string"}, "count": {"minimum": 1}}},
        },
    },
    "required": ["id"],
}
TREE = {"properties": {"children": {"type": "array", "items": SELF}, "name": {"type": "string"}}}
LIST = {"properties": {"next": {"anyOf": [{"type": "null"}, SELF]}}}
# The names tell the branches apart: no value is looked at by two of them.
TERMS = {
    "oneOf": [
        {"properties": {"left": SELF, "right": SELF}, "required": ["left"]},
        {"properties": {"not": SELF}, "required": ["not"]},
        {"type": "number"},
    ]
}


@pytest.mark.parametrize(
    ("schema", "most"),
    [
        (True, 1),
        ({}, 10),
        (ORDER, 60),
        (TREE, 10),
        (LIST, 10),
        (TERMS, 30),
        (chain(3, "anyOf"), 60),
        ({"items": [SELF, {"type": "null"}], "additionalItems": SELF}, 10),
        ({"$schema": D2020, "prefixItems": [SELF, {}], "items": SELF}, 10),
        ({"propertyNames": {"maxLength": 5}, "additionalProperties": SELF}, 10),
    ],
)
def test_schemas_with_a_bound(schema: Any, most: int) -> None:
    steps = bound_of_work(source(schema))
    assert steps is not None
    assert 1 <= steps <= most


TWICE = [{"type": "array", "items": SELF}, {"type": "array", "minItems": 1, "items": SELF}]


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": TWICE},
        {"oneOf": TWICE},
        {"allOf": TWICE},
        {"if": TWICE[0], "then": TWICE[1]},
        {"not": {"anyOf": TWICE}},
        {"dependencies": {"a": {"properties": {"b": SELF}}}, "properties": {"b": SELF}},
        {"patternProperties": {"^a": SELF, "a$": SELF}},
        {"properties": {"ab": SELF}, "patternProperties": {"^a": SELF}},
        {"items": SELF, "contains": SELF},
        {"properties": {"a": {"allOf": [SELF, {"$ref": "#/definitions/b"}]}}}
        | {"definitions": {"b": {"properties": {"a": {"$ref": "#/definitions/b"}}}}},
        chain(30, "anyOf"),
        chain(30, "allOf"),
        {"$schema": D2020, "properties": {"a": {}}, "unevaluatedProperties": False},
        {"$schema": D2020, "$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x"}}},
        {"pattern": "^(?=(a+)+$)b"},
        {"pattern": r"^(a+)\1$"},
        {"pattern": "(a{100}){90}"},
        {"format": "regex"},
        {"contentMediaType": "application/json"},
        {"properties": {f"p{n}": {"pattern": f"(a{{50}}){{20}}{n}"} for n in range(500)}},
    ],
)
def test_schemas_without_a_bound(schema: Any) -> None:
    assert bound_of_work(source(schema)) is None


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        (ORDER, {"lines": [{"sku": "a", "count": 1}] * 2_000}),
        (TREE, json.loads('{"children":[' * 50 + "]}" * 50)),
        (LIST, json.loads('{"next":' * 200 + "null" + "}" * 200)),
        (chain(10, "anyOf"), 5),
        ({"pattern": "^(a|b)*a(a|b){50}$"}, "ab" * 4_000),
        ({"items": {"enum": list(range(1_000))}}, [2_000] * 500),
        ({"uniqueItems": True, "items": SELF}, json.loads("[" * 100 + "]" * 100)),
    ],
)
def test_the_bound_holds(schema: Any, payload: Any) -> None:
    """A step is ten nanoseconds or so; here it may be a hundred, and a reason takes 30 ms.

    The best of five: a collection of the test process's garbage may fall into any one of them.
    """
    steps = bound_of_work(source(schema))
    assert steps is not None
    text = json.dumps(payload).encode()
    validate = make_bounded_validator(source(schema), steps)
    taken: list[float] = []
    for _ in range(5):
        started = thread_time()
        with suppress(InvalidContent, NotExplained):
            validate(text)
        taken.append(thread_time() - started)
    assert min(taken) < 0.1 + steps * len(text) * 100e-9


def test_reasons_are_given_where_they_are_cheap() -> None:
    validate = make_bounded_validator(source(TREE), 10)
    with pytest.raises(InvalidContent, match=r"^/children/0/name: "):
        validate(b'{"children": [{"name": 5}]}')
    with pytest.raises(NotExplained):
        validate(b'{"children": [' * 50 + b'{"name": 5}' + b"]}" * 50)
