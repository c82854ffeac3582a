"""Records sent once more: chosen by time, offsets and filter, at a pace, once."""

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from goqueue.model.errors import GoQueueError
from goqueue.spark.pipelines.replay_plan import ReplayPlan
from goqueue.spark.pipelines.run_status import RunState
from goqueue.spark.pipelines.state_folder import StateFolder
from tests.spark.committed_reading import read_committed, values_of
from tests.spark.pipeline_runs import run_file, write_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Send = Callable[..., None]
MakeTopic = Callable[..., str]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_PIPELINES", str(tmp_path / "state"))


def definition(bootstrap: str, source: str, sink: str, settings: str) -> str:
    return f'''name = "again"
kind = "replay"
bootstrap.servers = "{bootstrap}"
[[source]]
{source}
[replay]
{settings}
[sink]
topic = "{sink}"
'''


def test_chosen_records_keep_what_they_were(
    spark: "SparkSession", bootstrap: str, make_topic: MakeTopic, send: Send, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=2), make_topic(partitions=2)
    since = datetime.datetime.now(datetime.UTC).replace(microsecond=0) - datetime.timedelta(hours=2)
    first_ms = int(since.timestamp() * 1000)
    send(
        source,
        [
            {
                "key": f"k{number}",
                "value": f"{'bad' if number % 2 else 'good'} {number}",
                "partition": number % 2,
                "timestamp": first_ms + number * 60_000,
                "headers": [("h", b"x"), ("goqueue-priority", b"4")],
            }
            for number in range(20)
        ],
    )
    until = since + datetime.timedelta(minutes=10)
    text = definition(
        bootstrap,
        f'topic = "{source}"',
        sink,
        f"from = {(since + datetime.timedelta(minutes=2)).isoformat()}\nto = {until.isoformat()}\n"
        'filter = "CAST(value AS STRING) LIKE \'bad%\'"\npartitions = "keep"',
    )
    path = write_pipeline(tmp_path, text)
    dry = run_file(spark, path, dry_run=True)
    assert dry.said[0] == f"would send 4 of 18 records to {sink}"
    assert f"{source}-1: 4 records, offsets 1 to 4" in dry.said[1]
    assert dry.said[3].endswith("key 'k3', value 'bad 3'")
    assert values_of(bootstrap, sink) == []
    assert not StateFolder("again").path.exists()

    run = run_file(spark, path)
    assert run.state is RunState.FINISHED
    found = read_committed(bootstrap, sink)
    assert [(m.key(), m.value(), m.partition()) for m in found] == [
        (f"k{n}".encode(), f"bad {n}".encode(), 1) for n in (3, 5, 7, 9)
    ]
    assert found[0].timestamp()[1] == first_ms + 3 * 60_000
    assert found[0].headers() == [("h", b"x"), ("goqueue-priority", b"4")]


def test_a_pace_and_a_stop_and_a_crash(
    spark: "SparkSession",
    bootstrap: str,
    make_topic: MakeTopic,
    send: Send,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, sink = make_topic(partitions=2), make_topic()
    values = [f"{number}".encode() for number in range(90)]
    send(source, values)
    text = definition(bootstrap, f'topic = "{source}"', sink, "rate = 30")
    path = write_pipeline(tmp_path, text)

    def stop_soon(_progress: Any, stop: Any) -> None:
        stop.set()

    assert run_file(spark, path, on_progress=stop_soon).state is RunState.STOPPED
    sent = len(values_of(bootstrap, sink))
    assert sent == 30

    # Dies after the broker has a part, before the plan knows.
    def die(_self: ReplayPlan, _sent: int) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(ReplayPlan, "finish_part", die)
        with pytest.raises(GoQueueError, match="power cut"):
            run_file(spark, path)
    assert len(values_of(bootstrap, sink)) == 60

    changed = write_pipeline(tmp_path, text.replace("rate = 30", 'rate = 30\nfilter = "false"'))
    with pytest.raises(GoQueueError, match="begun with another definition, and 60 records"):
        run_file(spark, changed)

    send(source, [b"too late"])
    started = time.monotonic()
    run = run_file(spark, write_pipeline(tmp_path, text))
    assert time.monotonic() - started >= 1.0  # 60 records at 30 per second, the first at once
    assert run.state is RunState.FINISHED
    assert run.said[0] == "going on: 30 records were sent, 60 offsets are left"
    assert values_of(bootstrap, sink) == sorted(values)
    assert run.progress[-1].total_rows == 90
    assert run.progress[-1].lag == 0


def test_offsets_and_archives(
    spark: "SparkSession", bootstrap: str, make_topic: MakeTopic, send: Send, tmp_path: Path
) -> None:
    source, sink = make_topic(name=f"orders-{uuid4().hex[:6]}"), make_topic()
    send(source, [f"{number}".encode() for number in range(10)])
    archive = f"""name = "archive"
kind = "archive"
bootstrap.servers = "{bootstrap}"
[archive]
topic = "{source}"
table = "archive"
"""
    run_file(spark, write_pipeline(tmp_path, archive))
    text = definition(
        bootstrap,
        'table = "archive"\nname = "old"',
        sink,
        f"""from = '{{"{source}": {{"0": 3}}}}'\nto = '{{"{source}": {{"0": 7}}}}'""",
    )
    path = write_pipeline(tmp_path, text)
    assert run_file(spark, path, dry_run=True).said[0] == f"would send 4 of 4 records to {sink}"
    run_file(spark, path)
    assert values_of(bootstrap, sink) == [b"3", b"4", b"5", b"6"]

    # Offsets are those of the archive, not of what a filter leaves of it.
    filtered = write_pipeline(tmp_path, text.replace("to = ", 'filter = "offset >= 5"\nto = '))
    assert run_file(spark, filtered, dry_run=True).said[0] == f"would send 2 of 4 records to {sink}"

    for bad, expected in (
        (text.replace('"0": 7', '"0": 70'), "has offsets 0 to 10, not 70"),
        (text.replace('"0": 3', '"5": 3'), f"there is no {source}-5 to read"),
        (text.replace('"archive"', '"nowhere"'), "there is no table at"),
    ):
        with pytest.raises(GoQueueError, match=expected):
            run_file(spark, write_pipeline(tmp_path, bad), dry_run=True)
