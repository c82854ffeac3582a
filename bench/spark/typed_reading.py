"""Typed columns beside Spark's own functions on our binary column, in turns.

`python -m bench.spark.typed_reading`. Records carry a schema's id as Confluent's serialisers write
it; Spark's functions get the bytes behind it. Both make the same columns and go to the no-op sink.
"""

import argparse
import io
import json
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import goqueue.spark
from bench.artifacts import ROOT, Missing
from bench.bars import MET, NOT_MEASURED, NOT_MET, Bar
from bench.brokers.goqueue import GoQueue
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.report import render_bars
from bench.rounds import say
from bench.spark.connector_jars import AVRO_VERSION, avro_jars
from bench.spark.turns import Times, take_turns
from goqueue.client.http_address import find_http_url
from goqueue.client.http_api import HttpApi

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULTS: Final = ROOT / "bench" / "results"
PARTITIONS: Final = 4
_FRAME_BYTES: Final = 5
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

    def fill(self) -> None:
        parsed = fastavro.parse_schema(AVRO_SCHEMA)

        def as_avro(order: dict[str, Any]) -> bytes:
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, parsed, order)
            return stream.getvalue()

        self._fill("avro", AVRO_SCHEMA, as_avro)
        self._fill("json", JSON_SCHEMA, lambda order: json.dumps(order).encode())

    def contestants(self, kind: str) -> dict[str, Callable[[], float]]:
        found = {f"value.format={kind}": lambda: self._run(self._typed(kind))}
        if kind == "json" or self.has_from_avro:
            found[f"from_{kind}"] = lambda: self._run(self._by_spark(kind))
        return found

    def check(self, kind: str) -> None:
        """Both make the same of the same."""
        columns = ("value.id", "value.customer", "value.amount", "value.note", "value.quantity")
        sums = ("count(1)", "sum(id)", "sum(amount)", "sum(quantity)", "count(note)")
        frames = [self._typed(kind)]
        if kind == "json" or self.has_from_avro:
            frames.append(self._by_spark(kind))
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
        self, kind: str, schema: dict[str, Any], encode: Callable[[dict[str, Any]], bytes]
    ) -> None:
        topic = f"typed-{kind}"
        registry = HttpApi(find_http_url(self._servers))
        registered = registry.post(
            "subjects",
            f"{topic}-value",
            "versions",
            body={"schema": json.dumps(schema), "schemaType": kind.upper()},
        )
        frame = struct.pack(">bi", 0, registered["id"])
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


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark.typed_reading", description=__doc__
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="keep the table in bench/results")
    given = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    started_at = datetime.now().astimezone()
    broker = GoQueue()
    with tempfile.TemporaryDirectory(prefix="bench-spark-typed-") as folder:
        broker.start(Path(folder))
        try:
            contest = TypedContest(f"127.0.0.1:{broker.port}", given.rows)
            contest.fill()
            found: dict[str, Times] = {}
            for kind in ("avro", "json"):
                contest.check(kind)
                found[kind] = take_turns(contest.contestants(kind), given.rounds)
            version = contest.spark.version
            contest.spark.stop()
        finally:
            broker.stop()
    text = "\n".join(
        [
            f"# Spark reads {given.rows:,} typed records, {started_at:%Y-%m-%d %H:%M}",
            "",
            f"{machine.processor}, {machine.cores_used} cores shared by broker, Spark (local[2]) "
            f"and its workers, Linux {machine.kernel}, Python {machine.python}, Spark {version}, "
            f"from_avro {AVRO_VERSION}. GoQueue {broker.version()} as it starts "
            "(fsync.policy=interval). Load average "
            f"{machine.load_average_before} before the run (above 0.5 the machine was not quiet), "
            f"{load_average()} at its end.",
            "",
            f"Records of six fields, {PARTITIONS} partitions, {given.rounds} rounds after one to "
            "warm up, contestants in turns, the value alone to the no-op sink. Rows/s: median, "
            "lowest and highest round.",
            "",
            *(line for kind, times in found.items() for line in _table(kind, times, given.rows)),
            *render_bars([_bar(kind, times) for kind, times in found.items()]),
            "",
        ]
    )
    print(text)
    if given.save:
        path = RESULTS / f"{started_at:%Y-%m-%d-%H%M}-spark-typed.md"
        path.write_text(text)
        say(f"written: {path}")


def _table(kind: str, times: Times, rows: int) -> list[str]:
    lines = [f"| {kind} | rows/s | lowest | highest |", "|---|---|---|---|"]
    for name, seconds in times.items():
        rates = (rows / each for each in (statistics.median(seconds), max(seconds), min(seconds)))
        lines.append(f"| {name} | {' | '.join(f'{rate:,.0f}' for rate in rates)} |")
    return [*lines, ""]


def _bar(kind: str, times: Times) -> Bar:
    name, wanted = f"{kind}, of from_{kind}", "at least 1.00"
    if f"from_{kind}" not in times:
        return Bar(name, wanted, "none to be had", NOT_MEASURED)
    pairs = zip(times[f"from_{kind}"], times[f"value.format={kind}"], strict=True)
    share = statistics.median(theirs / ours for theirs, ours in pairs)
    return Bar(name, wanted, f"{share:.2f}", MET if share >= 1 else NOT_MET)


if __name__ == "__main__":
    main()
