"""A well-behaved client beside hostile ones: small operations over every door at a steady pace.

Every message that was acknowledged to it must come back once, and in the order of its log. It is a
process of its own, so that its times are the broker's and not those of a busy client.

    python -m tests.hostile.canary BOOTSTRAP HTTP_URL REPORT
"""

import http.client
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from kio.schema.fetch.v4.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v4.response import FetchResponse
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from goqueue.client.writing_cluster import WritingCluster
from goqueue.model.records import NewRecord, decode_records, encode_records
from tests.hostile.admission import WebClient, canary_security

LOG: Final = "canary-log"
QUEUE: Final = "canary-queue"
SQS_QUEUE: Final = "canary-sqs"
GROUP: Final = "canary"
ROUND_SECONDS: Final = 0.1
ANSWER_SECONDS: Final = 30
SLOW_SECONDS: Final = 0.1
SLOW_KEPT: Final = 200


class Fault(Exception):
    """Something that was acknowledged is not there, there twice, or elsewhere."""


class Canary:
    def __init__(self, bootstrap: str, http_url: str) -> None:
        self._cluster = WritingCluster(bootstrap, canary_security())
        self._http = WebClient(http_url)
        self.times: dict[str, list[float]] = {}
        self.slow: list[tuple[float, str, float]] = []
        self.acknowledged = 0
        self.read_back = 0
        self._next_offset = 0

    def set_up(self) -> None:
        for name in (LOG, QUEUE):
            self._call("POST", "/topics", {"name": name, "partitions": 1})
        self._sqs("CreateQueue", QueueName=SQS_QUEUE)
        self._kafka = self._cluster.leader(LOG, 0)

    def round(self, number: int) -> None:
        value = f"canary {number}"
        with self._timed("healthz"):
            self._call("GET", "/healthz")
        with self._timed("kafka produce"):
            offset = self._produce(value)
        self.acknowledged += 1
        self._expect(offset == self._next_offset, f"offset {offset}, not {self._next_offset}")
        self._next_offset = offset + 1
        with self._timed("kafka fetch"):
            found = self._fetch(offset)
        self._expect(found == [value], f"offset {offset} holds {found}, not {value}")
        self.read_back += 1
        self._queue_round(value)
        self._sqs_round(value)

    def _queue_round(self, value: str) -> None:
        with self._timed("http publish"):
            self._call("POST", f"/topics/{QUEUE}/messages", {"value": value})
        self.acknowledged += 1
        with self._timed("http receive"):
            received = self._call(
                "POST", f"/groups/{GROUP}/receive", {"topic": QUEUE, "max": 10, "start": "earliest"}
            )["messages"]
        self._expect([m["value"] for m in received] == [value], f"{received}, not {value}")
        self.read_back += 1
        with self._timed("http ack"):
            results = self._call(
                "POST",
                "/messages/ack",
                {"group": GROUP, "receipts": [message["receipt"] for message in received]},
            )["results"]
        self._expect([each["error"] for each in results] == [None], f"ack: {results}")

    def _sqs_round(self, value: str) -> None:
        with self._timed("sqs send"):
            self._sqs("SendMessage", QueueUrl=SQS_QUEUE, MessageBody=value)
        self.acknowledged += 1
        with self._timed("sqs receive"):
            received = self._sqs(
                "ReceiveMessage", QueueUrl=SQS_QUEUE, MaxNumberOfMessages=10, WaitTimeSeconds=1
            ).get("Messages", [])
        self._expect([m["Body"] for m in received] == [value], f"{received}, not {value}")
        self.read_back += 1
        with self._timed("sqs delete"):
            for message in received:
                self._sqs(
                    "DeleteMessage", QueueUrl=SQS_QUEUE, ReceiptHandle=message["ReceiptHandle"]
                )

    def look_at_all(self) -> None:
        """The whole log again, and what is left in the queues: nothing."""
        offset = 0
        while offset < self._next_offset:
            found = self._fetch(offset, max_bytes=10_000_000)
            expected = [f"canary {n}" for n in range(offset, offset + len(found))]
            self._expect(bool(found) and found == expected, f"from offset {offset} on: {found}")
            offset += len(found)
        self._http.connection.close()  # which has been idle for longer than a broker keeps it
        wanted = {"topic": QUEUE, "max": 10, "start": "earliest"}
        left = self._call("POST", f"/groups/{GROUP}/receive", wanted)["messages"]
        left += self._sqs("ReceiveMessage", QueueUrl=SQS_QUEUE).get("Messages", [])
        self._expect(not left, f"delivered twice: {left}")

    def _produce(self, value: str) -> int:
        records = bytes(encode_records([NewRecord(value=value.encode())], now_ms=_now_ms()))
        part = PartitionProduceData(index=i32(0), records=records)  # type: ignore[arg-type]
        request = ProduceRequest(
            transactional_id=None,
            acks=i16(-1),
            timeout=i32Timedelta.parse(_seconds(ANSWER_SECONDS)),
            topic_data=(TopicProduceData(name=TopicName(LOG), partition_data=(part,)),),
        )
        answer = self._kafka.call(request, ProduceResponse).responses[0].partition_responses[0]
        self._expect(answer.error_code.value == 0, f"produce: {answer.error_code}")
        return int(answer.base_offset)

    def _fetch(self, offset: int, max_bytes: int = 100_000) -> list[str]:
        part = FetchPartition(
            partition=i32(0), fetch_offset=i64(offset), partition_max_bytes=i32(max_bytes)
        )
        request = FetchRequest(
            replica_id=-1,  # type: ignore[arg-type]
            max_wait=i32Timedelta.parse(_seconds(1)),
            min_bytes=i32(1),
            max_bytes=i32(max_bytes),
            isolation_level=i8(0),
            topics=(FetchTopic(topic=TopicName(LOG), partitions=(part,)),),
        )
        answer = self._kafka.call(request, FetchResponse).responses[0].partitions[0]
        self._expect(answer.error_code.value == 0, f"fetch: {answer.error_code}")
        found = [r for r in decode_records(answer.records or b"") if r.offset >= offset]
        return [(record.value or b"").decode() for record in found]

    def _sqs(self, action: str, **fields: object) -> Any:
        headers = {
            "X-Amz-Target": f"AmazonSQS.{action}",
            "Content-Type": "application/x-amz-json-1.0",
        }
        return self._ask("POST", "/", fields, headers)

    def _call(self, method: str, path: str, body: object = None) -> Any:
        return self._ask(method, path, body, {"Content-Type": "application/json"})

    def _ask(self, method: str, path: str, body: object, headers: dict[str, str]) -> Any:
        try:
            status, text = self._http.ask(method, path, body, headers)
        except (http.client.HTTPException, OSError) as error:
            self._http.connection.close()
            raise Fault(f"{method} {path}: {error!r}") from error
        self._expect(status < 300, f"{method} {path}: {status} {text!r}")
        return json.loads(text) if text else {}

    @staticmethod
    def _expect(holds: bool, otherwise: str) -> None:
        if not holds:
            raise Fault(otherwise)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        taken = time.perf_counter() - began
        self.times.setdefault(name, []).append(taken)
        if taken > SLOW_SECONDS:
            self.slow = [*self.slow, (time.time(), name, taken)][-SLOW_KEPT:]


def figures(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    count = len(ordered)

    def at(share: float) -> float:
        return round(ordered[max(0, math.ceil(count * share) - 1)] * 1000, 1)

    return {"count": count, "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0)}


def _seconds(count: float) -> Any:
    return timedelta(seconds=count)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main(bootstrap: str, http_url: str, report: str) -> None:
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    canary = Canary(bootstrap, http_url)
    canary.set_up()
    faults: list[str] = []
    written = 0.0

    def attempt(step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            faults.append(f"{time.time():.1f} {error!r}")

    def write() -> None:
        every = [seconds for times in canary.times.values() for seconds in times]
        told = {
            "faults": faults[:20],
            "fault_count": len(faults),
            "acknowledged": canary.acknowledged,
            "read_back": canary.read_back,
            "all": figures(every) if every else {},
            "each": {name: figures(times) for name, times in canary.times.items()},
            "slow": canary.slow,
            "load": os.getloadavg()[0],
        }
        unfinished = Path(report).with_suffix(".tmp")
        unfinished.write_text(json.dumps(told))
        unfinished.rename(report)

    number = 0
    while not stopping:
        began = time.perf_counter()
        attempt(lambda: canary.round(number))  # noqa: B023
        number += 1
        if began - written > 1:
            written = began
            write()
        time.sleep(max(0.0, ROUND_SECONDS - (time.perf_counter() - began)))
    attempt(canary.look_at_all)
    write()


if __name__ == "__main__":
    main(*sys.argv[1:])
