"""Typed columns beside Spark's own functions on our binary column.

Records carry a schema's id as Confluent's serialisers write it; Spark's functions get the bytes
behind it. Both make the same columns and go to the no-op sink. There is no `from_protobuf` for
this Spark: Protobuf is measured beside the decoder of single records, which reads the same payloads
where the schema has one list more.
"""

import io
import json
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import goqueue.spark
from bench.artifacts import Missing
from bench.bars import MET, NOT_MEASURED, NOT_MET, Bar
from bench.rounds import say
from bench.spark.connector_jars import AVRO_VERSION, avro_jars
from bench.spark.findings import Findings, Given, share, table
from bench.spark.turns import Times, take_turns
from goqueue.client.http_address import find_http_url
from goqueue.client.http_api import HttpApi

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AVRO: Final = "avro"
JSON: Final = "json"
PROTOBUF: Final = "protobuf"
KINDS: Final = (AVRO, JSON, PROTOBUF)
BY_RECORD: Final = "record by record"
PARTITIONS: Final = 4
_FRAME_BYTES: Final = 5
_FIRST_MESSAGE: Final = b"\0"
# Records are made from as many different ones: making each anew would take longer than sending it.
_DIFFERENT: Final = 10_000

AVRO_SCHEMA: Final = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "is_new", "type": "boolean"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "quantity", "type": "int"},
    ],
}
JSON_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "amount": {"type": "number"},
        "is_new": {"type": "boolean"},
        "note": {"type": ["null", "string"]},
        "quantity": {"type": "integer"},
    },
}
_MESSAGE: Final = """syntax = "proto3";
message Order {
  int64 id = 1;
  string customer = 2;
  double amount = 3;
  bool is_new = 4;
  optional string note = 5;
  int32 quantity = 6;
"""
PROTOBUF_SCHEMA: Final = _MESSAGE + "}"
PROTOBUF_WITH_LIST: Final = _MESSAGE + "  repeated string more = 7;\n}"
_WITH_LIST: Final = "protobuf-with-list"
_JSON_COLUMNS: Final = (
    "id BIGINT, customer STRING, amount DOUBLE, is_new BOOLEAN, note STRING, quantity BIGINT"
)


def _order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"customer-{number % 1000}",
        "amount": number / 4,
        "is_new": number % 2 == 0,
        "note": None if number % 3 else "please ring twice",
        "quantity": number % 7,
    }


def _as_avro() -> Callable[[dict[str, Any]], bytes]:
    parsed = fastavro.parse_schema(AVRO_SCHEMA)

    def encode(order: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, order)
        return stream.getvalue()

    return encode


def _as_protobuf(order: dict[str, Any]) -> bytes:
    """By hand, for no message class is generated here: numbers here are small and not negative."""
    customer, note = order["customer"].encode(), (order["note"] or "").encode()
    return b"".join(
        [
            b"\x08" + _varint(order["id"]),
            b"\x12" + _varint(len(customer)) + customer,
            b"\x19" + struct.pack("<d", order["amount"]),
            b"\x20" + _varint(int(order["is_new"])),
            b"\x2a" + _varint(len(note)) + note if note else b"",
            b"\x30" + _varint(order["quantity"]),
        ]
    )


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


class TypedContest:
    def __init__(self, bootstrap_servers: str, rows: int) -> None:
        self._servers = bootstrap_servers
        self._rows = rows
        settings = {"spark.driver.memory": "4g", "spark.log.level": "ERROR"}
        try:
            settings["spark.jars"] = ",".join(map(str, avro_jars()))
            self.has_from_avro = True
        except Missing as error:
            say(f"no from_avro: {error}")
            self.has_from_avro = False
        self.spark: SparkSession = goqueue.spark.session("bench", "local[2]", **settings)

    def fill(self, kind: str) -> None:
        match kind:
            case "avro":
                self._fill(AVRO, AVRO, json.dumps(AVRO_SCHEMA), _as_avro())
            case "json":
                schema = json.dumps(JSON_SCHEMA)
                self._fill(JSON, JSON, schema, lambda order: json.dumps(order).encode())
            case _:
                self._fill(PROTOBUF, PROTOBUF, PROTOBUF_SCHEMA, _as_protobuf)
                self._fill(_WITH_LIST, PROTOBUF, PROTOBUF_WITH_LIST, _as_protobuf)

    def contestants(self, kind: str) -> dict[str, Callable[[], float]]:
        found = {f"value.format={kind}": lambda: self._run(self._typed(kind))}
        if self._has_other(kind):
            name = BY_RECORD if kind == PROTOBUF else f"from_{kind}"
            found[name] = lambda: self._run(self._other(kind))
        return found

    def _has_other(self, kind: str) -> bool:
        return kind != AVRO or self.has_from_avro

    def _other(self, kind: str) -> "DataFrame":
        if kind == PROTOBUF:
            return self._topic(_WITH_LIST, **{"value.format": PROTOBUF})
        return self._by_spark(kind)

    def check(self, kind: str) -> None:
        """Both make the same of the same."""
        columns = ("value.id", "value.customer", "value.amount", "value.note", "value.quantity")
        sums = ("count(1)", "sum(id)", "sum(amount)", "sum(quantity)", "count(note)")
        frames = [self._typed(kind)]
        if self._has_other(kind):
            frames.append(self._other(kind))
        found = {str(each.select(*columns).selectExpr(*sums).collect()[0]) for each in frames}
        assert len(found) == 1, found

    def _run(self, rows: "DataFrame") -> float:
        started = time.perf_counter()
        rows.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - started

    def _typed(self, kind: str) -> "DataFrame":
        return self._topic(kind, **{"value.format": kind})

    def _by_spark(self, kind: str) -> "DataFrame":
        from pyspark.sql import functions
        from pyspark.sql.avro.functions import from_avro

        payload = functions.expr(f"substring(value, {_FRAME_BYTES + 1})")
        if kind == "avro":
            typed = from_avro(payload, json.dumps(AVRO_SCHEMA))
        else:
            typed = functions.from_json(payload.cast("string"), _JSON_COLUMNS)
        return self._topic(kind).select(typed.alias("value"))

    def _topic(self, kind: str, **options: str) -> "DataFrame":
        reader = self.spark.read.format("goqueue").option("bootstrap.servers", self._servers)
        return reader.option("columns", "value").options(**options).load(f"typed-{kind}")

    def _fill(
        self, name: str, kind: str, schema: str, encode: Callable[[dict[str, Any]], bytes]
    ) -> None:
        topic = f"typed-{name}"
        registry = HttpApi(find_http_url(self._servers))
        registered = registry.post(
            "subjects",
            f"{topic}-value",
            "versions",
            body={"schema": schema, "schemaType": kind.upper()},
        )
        frame = struct.pack(">bi", 0, registered["id"])
        if kind == PROTOBUF:
            frame += _FIRST_MESSAGE
        values = [frame + encode(_order(number)) for number in range(_DIFFERENT)]
        admin = AdminClient({"bootstrap.servers": self._servers})
        admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result()
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "linger.ms": 20,
                "batch.size": 262_144,
                "queue.buffering.max.messages": 500_000,
            }
        )
        for number in range(self._rows):
            while True:
                try:
                    producer.produce(
                        topic, values[number % _DIFFERENT], partition=number % PARTITIONS
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(120) == 0, "the broker did not take all rows"


def measure(given: Given) -> Findings:
    contest = TypedContest(given.bootstrap_servers, given.rows)
    found: dict[str, Times] = {}
    for kind in given.kinds:
        contest.fill(kind)
        contest.check(kind)
        found[kind] = take_turns(contest.contestants(kind), given.rounds)
    version = contest.spark.version
    contest.spark.stop()
    return Findings(
        title=f"Spark reads {given.rows:,} typed records",
        versions=f"Spark {version}, from_avro {AVRO_VERSION}",
        conditions=f"Records of six fields, {PARTITIONS} partitions, the value alone to the no-op "
        "sink",
        tables=[line for kind, times in found.items() for line in table(kind, times, given.rows)],
        bars=[_bar(kind, times) for kind, times in found.items()],
    )


def _bar(kind: str, times: Times) -> Bar:
    other = BY_RECORD if kind == PROTOBUF else f"from_{kind}"
    name, wanted = f"{kind}, of {other}", "at least 1.00"
    if other not in times:
        return Bar(name, wanted, "none to be had", NOT_MEASURED)
    reached = share(times, f"value.format={kind}", other)
    return Bar(name, wanted, f"{reached:.2f}", MET if reached >= 1 else NOT_MET)
