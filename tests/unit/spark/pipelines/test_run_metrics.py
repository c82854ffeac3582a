"""Pipelines as Prometheus sees them."""

import os
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from goqueue.spark.pipelines.progress import Progress
from goqueue.spark.pipelines.run_metrics import metrics_text, serve_metrics, write_textfile
from goqueue.spark.pipelines.run_status import RunState, RunStatus
from goqueue.spark.pipelines.state_folder import StateFolder

BEGAN = "2026-11-15T10:00:00+00:00"
BEGAN_SECONDS = 1_794_736_800.0


@pytest.fixture(autouse=True)
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_PIPELINES", str(tmp_path / "state"))
    progress = Progress(
        query="copy", batch_id=4, rows_per_second=12.5, total_rows=70, lag=9, at_ms=5_500
    )
    status = RunStatus(
        name="copy",
        kind="sql",
        state=RunState.RUNNING,
        pid=os.getpid(),
        definition="p.toml",
        master="local[*]",
        started_at=BEGAN,
        restarts=2,
        progress={"copy": progress.to_json()},
    )
    folder = StateFolder("copy")
    with folder.locked():
        folder.write(status)


def samples(text: str) -> dict[tuple[str, str], float]:
    return {
        (each.name, each.labels.get("state", "")): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def test_state_lag_and_throughput() -> None:
    found = samples(metrics_text())
    # Its process let go of the lock: that is a failure, whatever it last wrote.
    assert found["goqueue_pipeline_state", "failed"] == 1
    assert found["goqueue_pipeline_state", "running"] == 0
    assert found["goqueue_pipeline_lag_records", ""] == 9
    assert found["goqueue_pipeline_rows_total", ""] == 70
    assert found["goqueue_pipeline_rows_per_second", ""] == 12.5
    assert found["goqueue_pipeline_progress_timestamp_seconds", ""] == 5.5
    assert found["goqueue_pipeline_restarts_total", ""] == 2
    assert found["goqueue_pipeline_started_timestamp_seconds", ""] == BEGAN_SECONDS
    assert ("goqueue_pipeline_succeeded_timestamp_seconds", "") not in found


def test_a_textfile_and_a_page_say_the_same(tmp_path: Path) -> None:
    write_textfile(tmp_path / "pipelines.prom")
    assert (tmp_path / "pipelines.prom").read_text() == metrics_text()
    assert [each.name for each in tmp_path.glob("*")] != [".pipelines.prom.draft"]
    port, serving = serve_metrics("127.0.0.1", 0)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert samples(answer.read().decode()) == samples(metrics_text())
    assert serving.daemon
