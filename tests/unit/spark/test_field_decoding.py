"""Values that their schema does not fit: an error that names the record, or null."""

import decimal
import json
import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from goqueue.client.http_api import HttpRefused, HttpUnreachable
from goqueue.client.registry import RegisteredSchema, Registry
from goqueue.model.errors import GoQueueError, InvalidRecord
from goqueue.spark.source.field_decoding import FieldPlan
from goqueue.spark.source.writer_schemas import SchemaChanged

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
SCHEMA = RegisteredSchema(
    type="AVRO",
    text=json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "price", "type": PRICE}]}
    ),
    references={},
)
KNOWN_ID = 1
OFFSETS = np.array([7, 8, 9], np.int64)


def _written(schema_id: int, unscaled: int) -> bytes:
    content = unscaled.to_bytes(8, "big")
    return struct.pack(">bib", 0, schema_id, 2 * len(content)) + content


GOOD = _written(KNOWN_ID, 1234)
STRANGE = {
    "the id of no schema": _written(99, 1234),
    "more digits than the schema says": _written(KNOWN_ID, 123_456_789),
    "too short": b"\0\0",
}


def _plan(*, skip_undecodable: bool) -> FieldPlan:
    return FieldPlan(
        name="value",
        format="avro",
        registry_url="http://127.0.0.1:1",
        subject="orders-value",
        chosen=SCHEMA,
        skip_undecodable=skip_undecodable,
    )


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_id(_: Registry, schema_id: int) -> RegisteredSchema:
        if schema_id != KNOWN_ID:
            raise HttpRefused(f"Schema {schema_id} not found", 404)
        return SCHEMA

    monkeypatch.setattr(Registry, "by_id", by_id)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("strange", STRANGE.values(), ids=list(STRANGE))
def test_a_value_that_does_not_fit_is_null_between_others(strange: bytes) -> None:
    decode = _plan(skip_undecodable=True).decoder("orders-0")
    found = decode(pa.array([GOOD, strange, GOOD]), OFFSETS)
    price = {"price": decimal.Decimal("12.34")}
    assert found.to_pylist() == [price, None, price]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("strange", STRANGE.values(), ids=list(STRANGE))
def test_a_value_that_does_not_fit_is_an_error_with_its_offset(strange: bytes) -> None:
    decode = _plan(skip_undecodable=False).decoder("orders-0")
    with pytest.raises(InvalidRecord, match=r"value of orders-0 at offset 8 .*mode=permissive"):
        decode(pa.array([GOOD, strange, GOOD]), OFFSETS)


@pytest.mark.parametrize("error", [HttpUnreachable("away"), HttpRefused("not now", 503)])
def test_a_registry_in_trouble_makes_nothing_null(
    monkeypatch: pytest.MonkeyPatch, error: GoQueueError
) -> None:
    def by_id(_: Registry, _schema_id: int) -> RegisteredSchema:
        raise error

    monkeypatch.setattr(Registry, "by_id", by_id)
    decode = _plan(skip_undecodable=True).decoder("orders-0")
    with pytest.raises(type(error)):
        decode(pa.array([GOOD] * 3), OFFSETS)


def _newer(monkeypatch: pytest.MonkeyPatch, evolution: str, newer: object) -> FieldPlan:
    """A plan for version 1, while schema 2 is version 2."""
    known = {1: SCHEMA, 2: replace(SCHEMA, text=json.dumps(newer))}
    monkeypatch.setattr(Registry, "by_id", lambda _, schema_id: known[schema_id])
    monkeypatch.setattr(Registry, "versions_of", lambda _, schema_id, _subject: [schema_id])
    plan = _plan(skip_undecodable=False)
    return replace(plan, evolution=evolution, chosen=replace(SCHEMA, version=1))


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_a_newer_version_ends_a_reader_that_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    plan = replace(_newer(monkeypatch, "stop", json.loads(SCHEMA.text)), format=kind)
    newer = _written(2, 1234)
    with pytest.raises(SchemaChanged, match=r"offset 8: .*version 2 .*start the query again"):
        plan.decoder("orders-0")(pa.array([None, newer, newer]), OFFSETS)


def test_a_newer_version_is_read_into_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    order = json.loads(SCHEMA.text)
    order["fields"].append({"name": "note", "type": "string"})
    plan = _newer(monkeypatch, "follow", order)
    found = plan.decoder("orders-0")(pa.array([GOOD, _written(2, 99) + b"\x02x", None]), OFFSETS)
    assert [row and str(row["price"]) for row in found.to_pylist()] == ["12.34", "0.99", None]


@pytest.mark.parametrize("evolution", ["follow", "permissive"])
def test_a_newer_version_that_does_not_fit(monkeypatch: pytest.MonkeyPatch, evolution: str) -> None:
    order = json.loads(SCHEMA.text)
    order["fields"][0]["type"] = "boolean"
    plan = _newer(monkeypatch, evolution, order)
    column = pa.array([GOOD, struct.pack(">bib", 0, 2, 1), GOOD])
    if evolution == "permissive":
        assert plan.decoder("orders-0")(column, OFFSETS)[1].as_py() is None
        # What is not the schema's fault stays an error.
        with pytest.raises(InvalidRecord, match=r"at offset 7 .*mode=permissive"):
            plan.decoder("orders-0")(pa.array([b"\0\0", GOOD, GOOD]), OFFSETS)
        return
    with pytest.raises(SchemaChanged, match=r"offset 8 .*start the query again.*nothing is lost"):
        plan.decoder("orders-0")(column, OFFSETS)
