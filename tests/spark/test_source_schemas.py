"""Values that the registry describes, as typed columns."""

import datetime
import io
import json
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.errors import StreamingQueryException

from goqueue.client.http_api import HttpApi
from goqueue.client.registry import RegisteredSchema
from goqueue.spark.source.avro_fields import avro_column, parse_avro
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


PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  string who = 2;
  google.protobuf.Timestamp at = 3;
}
"""
ADDED = """enum Kind { NEW = 0; OLD = 1; }
  int64 id = 1;
  Kind kind = 4;"""


def newer(order: dict[str, Any]) -> dict[str, Any]:
    added = {"name": "priority", "type": "int", "default": 7}
    return order | {"fields": [*order["fields"], added]}


def register(broker: ServerProcess, subject: str, schema: object, kind: str = "AVRO") -> int:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    body = {"schema": text, "schemaType": kind}
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


def test_structures_of_more_records_than_one_arrow_batch(
    spark: "SparkSession",
    broker: ServerProcess,
    bootstrap: str,
    make_topic: MakeTopic,
    send: Send,
    tmp_path: Path,
) -> None:
    count = 80_000
    topic = make_topic(1)
    schema: dict[str, Any] = {
        "type": "record",
        "name": "Outer",
        "fields": [
            {
                "name": "inner",
                "type": {
                    "type": "record",
                    "name": "Inner",
                    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}],
                },
            }
        ],
    }
    number = register(broker, f"{topic}-value", schema)
    send(topic, [avro(number, schema, {"inner": {"a": n, "b": str(n)}}) for n in range(count)])
    sums = ("sum(value.inner.a)", "sum(int(value.inner.b))", "count(value)")
    expected = (sum(range(count)), sum(range(count)), count)
    rows = read(spark, bootstrap, topic, value_format="avro")
    assert tuple(rows.selectExpr(*sums).collect()[0]) == expected
    found = []
    query = (
        spark.readStream.format("goqueue")
        .options(**{"bootstrap.servers": bootstrap, "value.format": "avro"})
        .option("startingOffsets", "earliest")
        .load(topic)
        .writeStream.foreachBatch(lambda batch, _: found.extend(batch.selectExpr(*sums).collect()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [tuple(row) for row in found] == [expected]


def test_protobuf_over_two_versions(
    spark: "SparkSession", broker: ServerProcess, bootstrap: str, make_topic: MakeTopic, send: Send
) -> None:
    topic = make_topic(1)
    subject = f"{topic}-value"
    first = register(broker, subject, PROTO, "PROTOBUF")
    second = register(broker, subject, PROTO.replace("int64 id = 1;", ADDED), "PROTOBUF")
    order = b"\x08\x07\x12\x03Ada\x1a\x02\x08\x05"
    send(topic, [wrapped(first, b"\0" + order), wrapped(second, b"\0" + order + b"\x20\x01")])
    rows = read(spark, bootstrap, topic, value_format="protobuf")
    assert rows.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,kind:string,who:string,at:timestamp>"
    )
    found = [row.asDict() for row in rows.orderBy("offset").select("value.*").collect()]
    assert [(row["id"], row["kind"], row["who"]) for row in found] == [
        (7, "NEW", "Ada"),
        (7, "OLD", "Ada"),
    ]
    assert found[0]["at"].timestamp() == 5


def test_a_stream_over_a_new_version(
    spark: "SparkSession",
    broker: ServerProcess,
    bootstrap: str,
    make_topic: MakeTopic,
    send: Send,
    tmp_path: Path,
) -> None:
    """The number becomes a text while the query stands: it stops, and starts again with it."""
    topic = make_topic(1)
    subject = f"{topic}-value"
    HttpApi(broker.http_url).put("config", subject, body={"compatibility": "NONE"})
    old = {"type": "record", "name": "Sold", "fields": [{"name": "what", "type": "long"}]}
    new = old | {"fields": [{"name": "what", "type": "string"}]}
    old_id = register(broker, subject, old)
    send(topic, [avro(old_id, old, {"what": 1})])

    def stream(**options: str) -> "DataFrame":
        return (
            spark.readStream.format("goqueue")
            .options(**{"bootstrap.servers": bootstrap, "topic": topic, "value.format": "avro"})
            .options(startingOffsets="earliest", columns="value", **options)
            .load()
        )

    def run(frame: "DataFrame", name: str = "query") -> list[Any]:
        (
            frame.selectExpr("CAST(value.what AS STRING) AS what")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / name))
            .awaitTermination()
        )
        kept = spark.read.parquet(str(tmp_path / name)).collect()
        return sorted((row.what for row in kept), key=str)

    following, stopping = stream(), stream(**{"schema.evolution": "stop"})
    permissive = stream(**{"schema.evolution": "permissive"})
    assert run(following) == ["1"]
    new_id = register(broker, subject, new)
    send(topic, [avro(new_id, new, {"what": "two"})])
    expected = f"version 2 of subject '{subject}'.*start the query again.*nothing is lost"
    for frame in (following, stopping):
        with pytest.raises(StreamingQueryException, match=expected):
            run(frame)
    assert run(permissive, "permissive") == ["1", None]
    assert run(stream()) == ["1", "two"]


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
    assert avro_column(parse_avro(schema_of(schema)), 5).type.simpleString() == expected


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
