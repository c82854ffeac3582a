"""Values that the registry describes, as typed columns."""

import datetime
import io
import json
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from goqueue.client.http_api import HttpApi
from goqueue.client.registry import RegisteredSchema
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.source.avro_fields import avro_type, parse_avro
from goqueue.spark.source.json_fields import json_reader, json_type
from goqueue.testing import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakeTopic = Callable[..., str]
Send = Callable[..., None]

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def newer(order: dict[str, Any]) -> dict[str, Any]:
    added = {"name": "priority", "type": "int", "default": 7}
    return order | {"fields": [*order["fields"], added]}


def register(broker: ServerProcess, subject: str, schema: object, kind: str = "AVRO") -> int:
    body = {"schema": json.dumps(schema), "schemaType": kind}
    answer = HttpApi(broker.http_url).post("subjects", subject, "versions", body=body)
    return int(answer["id"])


def wrapped(schema_id: int, payload: bytes) -> bytes:
    return struct.pack(">bi", 0, schema_id) + payload


def avro(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return wrapped(schema_id, stream.getvalue())


def read(spark: "SparkSession", bootstrap: str, topic: str, **options: str) -> "DataFrame":
    return (
        spark.read.format("goqueue")
        .options(**{"bootstrap.servers": bootstrap, "topic": topic, "columns": "value,offset"})
        .options(**{name.replace("_", "."): value for name, value in options.items()})
        .load()
    )


def test_avro_over_two_versions(
    spark: "SparkSession",
    broker: ServerProcess,
    bootstrap: str,
    make_topic: MakeTopic,
    send: Send,
) -> None:
    topic = make_topic(1)
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    order = {"id": 1, "note": None, "at": moment, "price": Decimal("12.50"), "tags": ["a", "b"]}
    first = register(broker, f"{topic}-value", ORDER)
    second = register(broker, f"{topic}-value", newer(ORDER))
    send(
        topic,
        [
            avro(first, ORDER, order),
            avro(second, newer(ORDER), order | {"id": 2, "note": "x", "priority": 1}),
            {"value": None},
            b"not avro at all",
        ],
    )
    rows = read(spark, bootstrap, topic, value_format="avro", mode="permissive")
    assert rows.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,note:string,at:timestamp,price:decimal(9,2),tags:array<string>,"
        "priority:int>"
    )
    found = rows.orderBy("offset").collect()
    values = [row["value"] and row["value"].asDict() for row in found]
    stamp = values[0].pop("at")
    assert stamp.timestamp() == moment.timestamp()
    assert values[0] == {
        "id": 1,
        "note": None,
        "price": Decimal("12.50"),
        "tags": ["a", "b"],
        "priority": 7,
    }
    assert (values[1]["id"], values[1]["note"], values[1]["priority"]) == (2, "x", 1)
    assert values[2:] == [None, None]
    with pytest.raises(Exception, match=re.compile("at offset 3 is not what.*mode=permissive")):
        read(spark, bootstrap, topic, value_format="avro").collect()
    older = read(spark, bootstrap, topic, value_format="avro", value_schema_version="1")
    assert "priority" not in older.schema["value"].dataType.simpleString()
    with pytest.raises(Exception, match=f"subject '{topic}-key'.*register a schema"):
        read(spark, bootstrap, topic, key_format="avro", columns="key").collect()


def test_json_documents(
    spark: "SparkSession",
    broker: ServerProcess,
    bootstrap: str,
    make_topic: MakeTopic,
    send: Send,
) -> None:
    topic = make_topic(1)
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "total": {"type": "number"},
            "who": {"$ref": "#/definitions/person"},
        },
        "definitions": {"person": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }
    schema_id = register(broker, f"{topic}-value", schema, "JSON")
    document = {"id": 5, "total": 2, "who": {"name": "Ada"}, "more": 1}
    send(topic, [wrapped(schema_id, json.dumps(document).encode())])
    rows = read(spark, bootstrap, topic, value_format="json").select("value.*").collect()
    assert [row.asDict(recursive=True) for row in rows] == [
        {"id": 5, "total": 2.0, "who": {"name": "Ada"}}
    ]


def schema_of(content: object, kind: str = "AVRO") -> RegisteredSchema:
    return RegisteredSchema(type=kind, text=json.dumps(content), references={})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("string", "string"),
        (["null", "int"], "int"),
        (["null", "int", "long"], "bigint"),
        ({"type": "map", "values": "double"}, "map<string,double>"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 4}, "binary"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "int", "logicalType": "time-millis"}, "int"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
    ],
)
def test_avro_types(schema: object, expected: str) -> None:
    assert avro_type(parse_avro(schema_of(schema))).simpleString() == expected


def test_avro_that_spark_has_no_type_for() -> None:
    chain = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": "Node"}]}
    with pytest.raises(InvalidOption, match="contains itself"):
        avro_type(parse_avro(schema_of(chain)))
    with pytest.raises(InvalidOption, match="a union of 2 types"):
        avro_type(parse_avro(schema_of(["int", "string"])))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["null", "string"]}, "string"),
        ({"type": "array", "items": {"type": "boolean"}}, "array<boolean>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "string"),
        ({"properties": {"a": {"type": ["integer", "number"]}}}, "struct<a:double>"),
    ],
)
def test_json_types(schema: object, expected: str) -> None:
    assert json_type(schema_of(schema, "JSON")).simpleString() == expected


def test_json_of_another_type_names_its_place() -> None:
    kind = json_type(schema_of({"properties": {"a": {"type": "integer"}}}, "JSON"))
    with pytest.raises(ValueError, match=r"value\.a is str, not bigint"):
        json_reader(kind)(b'{"a": "x"}')
