"""What is kept of runs, and what is made of a process that died."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.spark.pipelines.progress import Progress, batch_progress
from goqueue.spark.pipelines.run_lock import LOCK_VARIABLE, AlreadyRunning
from goqueue.spark.pipelines.run_status import RunState, RunStatus, now_text
from goqueue.spark.pipelines.runner import StopRequest
from goqueue.spark.pipelines.state_folder import StateFolder, UnknownPipeline, known_pipelines


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
        who = rf"\(process {os.getpid()} on \S+, since 20\S+\).*pipeline stop p"
        with pytest.raises(AlreadyRunning, match=who):
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


def test_a_lock_that_is_handed_on_is_not_asked_for_again(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with folder.locked() as lock:
        folder.request_stop()
        monkeypatch.setenv(LOCK_VARIABLE, str(lock))
        with folder.locked():
            assert folder.stop_requested, "a request to the watcher is one to its run"
        assert folder.is_locked()


def test_the_lock_of_a_killed_process_is_taken_over(folder: StateFolder) -> None:
    program = (
        "import os, signal\n"
        "from goqueue.spark.pipelines.state_folder import StateFolder\n"
        "StateFolder('p').locked().__enter__()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert (folder.path / "lock").read_text(), "it tells of the dead process"
    with folder.locked():
        assert str(os.getpid()) in (folder.path / "lock").read_text()


def test_a_status_of_an_earlier_version_is_read(folder: StateFolder) -> None:
    with folder.locked():
        folder.write(status(RunState.FINISHED))
    written = json.loads(folder.status_path.read_text())
    for name in ("host", "restarts", "nextStartAt", "succeededAt"):
        del written[name]
    folder.status_path.write_text(json.dumps(written))
    assert folder.status().state is RunState.FINISHED


def test_a_log_is_followed_until_the_run_ends(folder: StateFolder) -> None:
    with folder.locked():
        folder.log_path.write_text("one\ntwo\nthree\n")
        lines, place = folder.last_lines(2)
        assert lines == ["two", "three"]
        news = folder.follow_log(place)
        with folder.log_path.open("a") as log:
            log.write("four\n")
        assert next(news) == "four\n"
        folder.log_path.write_text("anew\n")
        assert next(news) == "anew\n"
    assert list(news) == []


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
