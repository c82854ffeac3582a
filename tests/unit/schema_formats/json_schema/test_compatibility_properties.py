"""What holds for all schemas: a schema fits itself, and what fits can be read."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from goqueue.schema_formats import (
    InvalidContent,
    InvalidSchema,
    SchemaSource,
    SchemaType,
    incompatibilities,
    make_validator,
)
from goqueue.schema_formats.json_schema import compatibility

NAMES = st.sampled_from(["a", "b", "c"])
SMALL = st.integers(0, 4)


def source(schema: Any) -> SchemaSource:
    return SchemaSource(SchemaType.JSON, json.dumps(schema))


def kinds(writer: Any, reader: Any) -> list[str]:
    return [reason.kind for reason in incompatibilities(source(reader), source(writer))]


def with_some(base: dict[str, Any], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({k: st.just(v) for k, v in base.items()}, optional=optional)


scalars = st.one_of(
    with_some({"type": "string"}, minLength=SMALL, maxLength=SMALL, pattern=st.just("^a*$")),
    with_some({"type": "integer"}, minimum=SMALL, maximum=SMALL, multipleOf=st.integers(1, 4)),
    with_some({"type": "number"}, exclusiveMinimum=SMALL, exclusiveMaximum=SMALL),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}]),
    st.lists(st.sampled_from([1, "a", None, True]), min_size=1, unique_by=repr).map(
        lambda values: {"enum": values}
    ),
)


def composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    rest = st.one_of(st.booleans(), inner)
    objects = with_some(
        {"type": "object"},
        properties=st.dictionaries(NAMES, inner, max_size=3),
        additionalProperties=rest,
        patternProperties=st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=1),
        minProperties=SMALL,
    )
    arrays = with_some({"type": "array"}, items=inner, minItems=SMALL, uniqueItems=st.booleans())
    tuples = with_some(
        {"type": "array"},
        items=st.lists(inner, min_size=1, max_size=2),
        additionalItems=rest,
    )
    parts = st.lists(inner, min_size=1, max_size=3)
    sums = parts.map(lambda schemas: {"anyOf": schemas})
    products = parts.map(lambda schemas: {"allOf": schemas})
    return st.one_of(objects, arrays, tuples, sums, products, inner.map(lambda s: {"not": s}))


schemas = st.recursive(scalars, composed, max_leaves=6)
documents = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 5), st.sampled_from(["", "a", "aab", 0.5])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)


@st.composite
def evolved(draw: st.DrawFn, schema: Any) -> Any:
    """The schema with some limits moved, properties and alternatives added or taken away.

    Patterns of properties stay: Confluent's registry does not compare them, and neither do we.
    """
    if not isinstance(schema, dict):
        return draw(st.sampled_from([schema, True, False]))
    changed: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in ("type", "patternProperties"):
            changed[keyword] = value
        elif draw(st.integers(0, 5)):
            changed[keyword] = value if keyword == "enum" else draw(evolved_value(value))
    if schema.get("type") == "object" and draw(st.booleans()):
        added = draw(st.dictionaries(NAMES, scalars, max_size=1))
        changed["properties"] = {**changed.get("properties", {}), **added}
    if "anyOf" in changed and draw(st.booleans()):
        changed["anyOf"] = [*changed["anyOf"], draw(scalars)]
    return changed


def evolved_value(value: Any) -> st.SearchStrategy[Any]:
    if isinstance(value, bool) or value == "integer":
        return st.sampled_from(
            [value, True, False] if isinstance(value, bool) else [value, "number"]
        )
    if isinstance(value, int):
        return st.sampled_from([value, value, value + 1, max(value - 1, 1)])
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return st.tuples(*(evolved(item) for item in value)).map(list)
    if isinstance(value, dict):
        named = all(isinstance(item, dict) for item in value.values()) and "type" not in value
        if named and not {"not", "items", "additionalProperties"} & value.keys():
            return st.fixed_dictionaries({name: evolved(item) for name, item in value.items()})
        return evolved(value)
    return st.just(value)


def reads(validate: Callable[[bytes], None], document: Any) -> bool:
    try:
        validate(json.dumps(document).encode())
    except InvalidContent:
        return False
    return True


@settings(max_examples=100, deadline=None)
@given(schemas)
def test_a_schema_fits_itself(schema: Any) -> None:
    assert kinds(schema, schema) == []


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(st.data(), schemas)
def test_what_fits_can_be_read(data: st.DataObject, old: Any) -> None:
    new = data.draw(evolved(old))
    written = data.draw(st.lists(documents, min_size=5, max_size=20))
    for writer, reader in ((old, new), (new, old)):
        if kinds(writer, reader):
            continue
        by_writer, by_reader = make_validator(source(writer)), make_validator(source(reader))
        for document in written:
            assert reads(by_reader, document) or not reads(by_writer, document), document


def test_patterns_of_properties_are_not_compared() -> None:
    """As in Confluent's registry: they say what a property that is not named may be, no more."""
    narrow = {"type": "object", "patternProperties": {"^a": {"type": "string"}}}
    assert kinds({"type": "object"}, narrow) == []
    assert kinds({"not": narrow}, {"not": {"type": "object"}}) == []


@settings(max_examples=60, deadline=None)
@given(schemas, schemas)
def test_a_sum_takes_both_and_a_product_is_taken_by_both(one: Any, other: Any) -> None:
    assume(one != other and not {"anyOf", "allOf"} & (one.keys() | other.keys()))
    assume(not any(isinstance(schema.get("type"), list) for schema in (one, other)))
    if len(one) == len(other) == 1 or all("enum" not in schema for schema in (one, other)):
        assert kinds(one, {"anyOf": [other, one]}) == []
        assert kinds({"allOf": [one, other]}, one) == []


def definitions_chain(length: int, last: dict[str, Any]) -> dict[str, Any]:
    chain: dict[str, Any] = {
        f"d{i}": {"properties": {"x": {"$ref": f"#/definitions/d{i + 1}"}}} for i in range(length)
    }
    return {"$ref": "#/definitions/d0", "definitions": {**chain, f"d{length}": last}}


def test_a_chain_deeper_than_the_stack_is_compared() -> None:
    old, new = (
        definitions_chain(2_000, {"type": "string"}),
        definitions_chain(2_000, {"type": "null"}),
    )
    (found,) = incompatibilities(source(new), source(old))
    assert found.kind == "TYPE_CHANGED"
    assert found.path.startswith("#/properties/x/properties/x/")
    assert found.path.endswith("/…")


def test_definitions_used_everywhere_are_compared_once() -> None:
    """Two uses of the next definition in each make 2**40 paths."""

    def doubling(last: dict[str, Any]) -> dict[str, Any]:
        both = [{"x": {"$ref": f"#/definitions/d{i + 1}"}} for i in range(40)]
        chain = {f"d{i}": {"properties": {**p, "y": p["x"]}} for i, p in enumerate(both)}
        return {"$ref": "#/definitions/d0", "definitions": {**chain, "d40": last}}

    assert kinds(doubling({"type": "string"}), doubling({"type": "string"})) == []
    assert kinds(doubling({"type": "string"}), doubling({"type": "null"})) == ["TYPE_CHANGED"] * 100


def test_what_was_taken_to_fit_in_a_loop_is_looked_at_again() -> None:
    """A pair fails after it has been taken to fit, so what relied on it must not stand."""

    def schema(last: str) -> dict[str, Any]:
        node = {
            "type": "object",
            "additionalProperties": False,
            "properties": {"other": {"$ref": "#/definitions/other"}, "v": {"type": last}},
        }
        other = {"type": "array", "items": {"$ref": "#/definitions/node"}}
        either = {"anyOf": [{"$ref": "#/definitions/node"}, {"$ref": "#/definitions/other"}]}
        return {**either, "definitions": {"node": node, "other": other}}

    assert kinds(schema("integer"), schema("string")) == ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]
    assert kinds(schema("integer"), schema("number")) == []


def alternatives(word: str, count: int) -> dict[str, Any]:
    return {"oneOf": [{"enum": [f"{word}{i}"], "title": word} for i in range(count)]}


def test_many_alternatives_are_matched_in_good_time() -> None:
    began = time.process_time()
    assert kinds(alternatives("a", 300), alternatives("a", 301)) == []
    assert kinds(alternatives("a", 300), alternatives("b", 300)) == [
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
    ]
    assert time.process_time() - began < 5


def test_too_many_comparisons_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "MAX_COMPARISONS", 1_000)
    old, new = alternatives("a", 60), alternatives("a", 60)
    new["oneOf"] = [{**part, "title": "other"} for part in reversed(new["oneOf"])]
    with pytest.raises(InvalidSchema, match="more than 1000 comparisons"):
        kinds(old, new)
