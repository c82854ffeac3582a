"""The demo's parts, on the shared broker and session."""

import random
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from demo.orders import Mix, messages
from demo.queue_workers import Shift, work

from goqueue.client.http_api import HttpApi
from goqueue.spark.archive.delta_table import read_delta
from goqueue.testing import ServerProcess
from tests.spark.committed_reading import WAIT_SECONDS, values_of
from tests.spark.pipeline_runs import run_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every query starts processes of Spark's, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(300)

MIX = Mix(orders=60, minutes=3, delayed=1, delay_ms=100, poisonous=1)


def test_orders_are_packed_and_counted(
    spark: "SparkSession",
    broker: ServerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOQUEUE_PIPELINES", str(tmp_path / "state"))
    monkeypatch.setenv("GOQUEUE_BOOTSTRAP", broker.bootstrap_servers)
    api = HttpApi(broker.http_url)
    settings = {"queue.retry.backoff.ms": "1", "queue.max.deliveries": "2"}
    api.post("topics", body={"name": "orders", "partitions": 2, "config": settings})
    api.post("topics", body={"name": "revenue", "partitions": 1})
    sent = list(messages(MIX, time.time_ns() // 1_000_000, random.Random(1)))
    api.post("topics", "orders", "messages", body={"messages": sent})

    shift, done = Shift(), threading.Event()
    worker = threading.Thread(target=work, args=(broker.http_url, "orders", shift, done))
    worker.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while shift.counts["packed"] < 61 or not api.get("topics", "orders", "dlq")["deadLetters"]:
        assert time.monotonic() < deadline, shift.counts
    done.set()
    worker.join(WAIT_SECONDS)
    assert shift.priorities.count(1) == 6

    folder = tmp_path / "revenue"
    shutil.copytree(Path("demo/revenue"), folder)
    run_file(spark, folder / "pipeline.toml")
    rows = read_delta(spark, str(folder / "revenue-table")).collect()
    assert rows
    assert len(values_of(broker.bootstrap_servers, "revenue")) == len(rows)
    amounts = [each["value"]["amount"] for each in sent if isinstance(each["value"], dict)]
    assert 0 < sum(row.revenue for row in rows) <= sum(amounts)
