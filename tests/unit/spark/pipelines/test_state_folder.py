"""What is kept of runs, and what is made of a process that died."""

import json
import os
from pathlib import Path

import pytest

from goqueue.spark.pipelines.progress import Progress, batch_progress
from goqueue.spark.pipelines.run_status import RunState, RunStatus, now_text
from goqueue.spark.pipelines.runner import StopRequest
from goqueue.spark.pipelines.state_folder import (
    AlreadyRunning,
    StateFolder,
    UnknownPipeline,
    known_pipelines,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    monkeypatch.setenv("GOQUEUE_PIPELINES", str(tmp_path / "state"))
    return StateFolder("p")


def status(state: RunState) -> RunStatus:
    return RunStatus(
        name="p",
        kind="sql",
        state=state,
        pid=os.getpid(),
        definition="p.toml",
        master="local[*]",
        started_at=now_text(),
    )


def test_a_status_is_read_as_it_was_written(folder: StateFolder) -> None:
    with pytest.raises(UnknownPipeline, match="no pipeline 'p' has run here"):
        folder.status()
    written = status(RunState.RUNNING)
    progress = Progress(query="q", batch_id=3, batch_rows=7, rows_per_second=2.5, at_ms=9)
    written.progress["q"] = progress.to_json()
    with folder.locked():
        folder.write(written)
        assert folder.status() == written
        assert Progress.from_json(folder.status().progress["q"]) == progress
        assert [each.name for each in known_pipelines()] == ["p"]
        assert folder.is_locked()
        with pytest.raises(AlreadyRunning, match=rf"process {os.getpid()}.*pipeline stop p"):
            folder.locked().__enter__()
    assert not folder.is_locked()


def test_a_process_that_is_gone_has_failed(folder: StateFolder) -> None:
    with folder.locked():
        folder.write(status(RunState.RUNNING))
    folder.log_path.write_text("INFO fine\njava.lang.OutOfMemoryError: heap\nbye\n")
    found = folder.status()
    assert found.state is RunState.FAILED
    assert "ended without a word" in (found.error or "")
    assert "last error in the log: java.lang.OutOfMemoryError: heap" in (found.error or "")
    folder.request_stop()
    assert folder.status().state is RunState.STOPPED
    with folder.locked():
        folder.write(status(RunState.FINISHED))
    assert folder.status().state is RunState.FINISHED


def test_stops_are_asked_for_by_file(folder: StateFolder) -> None:
    with folder.locked():
        stop = StopRequest(folder)
        assert not stop.wait(0)
        folder.request_stop()
        assert stop.wait(10)
        assert stop.is_set
    with folder.locked():  # a new run is not stopped by an old request
        assert not StopRequest(folder).is_set


def test_progress_of_a_batch() -> None:
    ids = {"t": "5df7c293-e0df-47bb-b05e-8272bd10cbe0"}
    reported = {
        "batchId": 4,
        "numInputRows": 10,
        "processedRowsPerSecond": float("nan"),
        "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
        "sources": [
            {
                "endOffset": json.dumps({"offsets": {"t": {"0": 5, "1": 3}}, "ids": ids}),
                "latestOffset": json.dumps({"offsets": {"t": {"0": 9, "1": 3}}, "ids": ids}),
            },
            {"endOffset": None, "latestOffset": "not ours"},
        ],
    }
    found = batch_progress("q", reported, rows_before=100)
    assert (found.lag, found.total_rows, found.watermark) == (4, 110, None)
    assert str(found) == "q: batch 4, 10 rows, 0 rows/s, total 110, lag 4"
    assert batch_progress("q", {"batchId": 0}, 0).lag is None
