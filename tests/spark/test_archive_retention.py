"""Retention that waits for an archive: pipeline, broker and view together."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.spark import archived
from goqueue.testing import ServerProcess
from tests.busy_machine import stretched
from tests.spark.pipeline_runs import run_file, write_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 200
# A segment for few records, and none of them is to be kept.
SETTINGS = {"segment.bytes": "2000", "retention.ms": "1", "file.delete.delay.ms": "0"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    check = ("--set", "retention.check.interval.ms=200")
    with ServerProcess(tmp_path / "broker", *check) as running:
        yield running


@pytest.fixture
def first_offset(server: ServerProcess) -> Iterator[Callable[[str], int]]:
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "unused"})
    yield lambda topic: consumer.get_watermark_offsets(TopicPartition(topic, 0))[0]
    consumer.close()


def fill(server: ServerProcess, topic: str, first: int) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "batch.num.messages": 10})
    for number in range(first, first + COUNT):
        producer.produce(topic, b"%d" % number, timestamp=1_767_225_600_000 + number)
    assert producer.flush(30) == 0


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + stretched(30)
    while not is_so():
        assert time.monotonic() < deadline, what


def test_segments_stay_until_they_are_archived(
    spark: "SparkSession",
    server: ServerProcess,
    first_offset: Callable[[str], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOQUEUE_PIPELINES", str(tmp_path / "state"))
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    topics = [NewTopic(name, 1, config=SETTINGS) for name in ("orders", "unarchived")]
    for made in admin.create_topics(topics).values():
        made.result()
    path = write_pipeline(
        tmp_path,
        f'''name = "keep"
kind = "archive"
bootstrap.servers = "{server.bootstrap_servers}"
[archive]
topic = "orders"
table = "table"
retention = "wait"
''',
    )
    run = run_file(spark, path)  # of an empty topic: from now on it waits
    assert "orders keeps its segments until they are archived" in run.said
    for topic in ("orders", "unarchived"):
        fill(server, topic, 0)
    wait_until(lambda: first_offset("unarchived") > 0, "retention does not run")
    assert first_offset("orders") == 0

    run_file(spark, path)
    wait_until(lambda: first_offset("orders") > 0, "what is archived stays")
    fill(server, "orders", COUNT)
    again = first_offset("orders")
    assert again <= COUNT, "what is not archived is gone"
    whole = archived(
        spark, table=str(tmp_path / "table"), bootstrap_servers=server.bootstrap_servers
    )
    values = sorted(int(bytes(row.value)) for row in whole.select("value").collect())
    assert values == list(range(2 * COUNT))
