"""Dead letters counted and sent back by Spark."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.client.http_api import HttpApi
from goqueue.spark.dead_letters.reading import DeadLetters
from goqueue.spark.dead_letters.redrive import redrive
from goqueue.spark.pipelines.problems import InvalidPipeline
from goqueue.testing import ServerProcess
from tests.spark.committed_reading import WAIT_SECONDS, read_committed, values_of
from tests.spark.pipeline_runs import run_file, write_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every query starts processes of Spark's, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(300)

MakeTopic = Callable[..., str]
Send = Callable[..., None]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_PIPELINES", str(tmp_path / "state"))


@pytest.fixture
def letters(
    broker: ServerProcess, bootstrap: str, make_topic: MakeTopic, send: Send
) -> DeadLetters:
    """Six messages, of which four were rejected."""
    topic = make_topic(partitions=2)
    api = HttpApi(broker.http_url)
    send(
        topic,
        [
            {
                "key": b"k%d" % number,
                "value": b"%d" % number,
                "partition": number % 2,
                "headers": [("error", b"no stock" if number < 2 else b"no such customer")],
            }
            for number in range(6)
        ],
    )
    received = 0
    while received < 6:
        found = api.get("groups", "workers", "poll", topic=topic, max=10)["messages"]
        for message in found:
            step = "reject" if int(message["value"]) < 4 else "ack"
            api.post("messages", step, body={"group": "workers", "receipts": [message["receipt"]]})
        received += len(found)
    deadline = time.monotonic() + WAIT_SECONDS
    while len(api.get("topics", topic, "dlq")["deadLetters"]) < 4:
        assert time.monotonic() < deadline, "the dead letters are not written"
    return DeadLetters(bootstrap_servers=bootstrap, topic=topic)


def pipeline(letters: DeadLetters, *lines: str) -> str:
    return f'''name = "letters"
kind = "dead-letters"
bootstrap.servers = "{letters.bootstrap_servers}"

[dead-letters]
topic = "{letters.topic}"
''' + "\n".join(lines)


def test_counted_and_sent_back_once(
    spark: "SparkSession", letters: DeadLetters, tmp_path: Path
) -> None:
    path = write_pipeline(
        tmp_path, pipeline(letters, 'groupBy = ["reason", "exception", "group", "sourceTopic"]')
    )
    table = [line.split("  ") for line in run_file(spark, path).said]
    kinds = {tuple(cell.strip() for cell in row if cell)[:6] for row in table[1:3]}
    assert kinds == {
        ("rejected", error, "workers", letters.topic, "2", "2")
        for error in ("no stock", "no such customer")
    }

    chosen = ('action = "redrive"', "where = \"exception = 'no stock'\"")
    path = write_pipeline(tmp_path, pipeline(letters, *chosen))
    dry = run_file(spark, path, dry_run=True)
    assert dry.said[-1] == "dry run: nothing was sent"
    assert values_of(letters.bootstrap_servers, letters.topic) == [b"%d" % n for n in range(6)]

    sent = run_file(spark, path).said[-1]
    assert sent == f"2 dead letters of {letters.topic} were sent back"
    assert redrive(spark, letters) == 2
    assert redrive(spark, letters) == 0
    found = read_committed(letters.bootstrap_servers, letters.topic)
    assert sorted(message.value() or b"" for message in found) == sorted(
        b"%d" % number for number in [*range(6), *range(4)]
    )
    back = [message for message in found if message.value() == b"1"]
    assert back[0].headers() == back[1].headers() == [("error", b"no stock")]
    assert back[0].key() == back[1].key()
    rows = letters.frame(spark).collect()
    assert len({row.redrivenBy for row in rows}) == 2
    assert all(row.redrivenBy.startswith("redrive.") for row in rows)


def test_broker_and_pipeline_know_what_the_other_sent_back(
    spark: "SparkSession", broker: ServerProcess, letters: DeadLetters
) -> None:
    api = HttpApi(broker.http_url)

    def sent_by_broker(limit: int | None) -> int:
        answer = api.post("topics", letters.topic, "dlq", "redrive", body={"limit": limit})
        return int(answer["sentBack"])

    assert sent_by_broker(1) == 1
    assert redrive(spark, letters, "exception = 'no stock'") in (1, 2)
    left = len(api.get("topics", letters.topic, "dlq")["deadLetters"])
    # What a pipeline sent back does not count, and is not sent again.
    assert sent_by_broker(left) == left > 0
    assert api.get("topics", letters.topic, "dlq")["deadLetters"] == []
    assert redrive(spark, letters) == 0
    by = [row.redrivenBy for row in letters.frame(spark).collect()]
    assert len(by) == 4
    assert by.count("broker") == 1 + left
    assert values_of(letters.bootstrap_servers, letters.topic) == sorted(
        b"%d" % number for number in [*range(6), *range(4)]
    )


def test_bad_definitions(spark: "SparkSession", letters: DeadLetters, tmp_path: Path) -> None:
    path = write_pipeline(tmp_path, pipeline(letters, 'groupBy = ["colour"]', 'action = "burn"'))
    with pytest.raises(InvalidPipeline) as raised:
        run_file(spark, path)
    assert "'colour' is not one of reason, sourceTopic" in str(raised.value)
    assert "'burn' is not one of report, redrive" in str(raised.value)
    path = write_pipeline(tmp_path, pipeline(letters, 'where = "reasn = 1"'))
    with pytest.raises(InvalidPipeline, match=r"pipeline\.toml:7: dead-letters\.where"):
        run_file(spark, path)
