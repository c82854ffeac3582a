"""Runs that are begun again: how late, how often, and what is seen of it."""

import os
import sys
import threading
from pathlib import Path

import pytest

from goqueue.spark.pipelines.run_status import RunState, RunStatus, now_text
from goqueue.spark.pipelines.state_folder import StateFolder
from goqueue.spark.pipelines.supervision import GaveUp, Restarts, Supervisor
from tests.busy_machine import stretched

# Does as a run does: counts its starts, notes a failure, and ends with the code of that start.
PROGRAM = """
import os, sys
from pathlib import Path
from goqueue.spark.pipelines.run_status import RunState, RunStatus, now_text
from goqueue.spark.pipelines.state_folder import StateFolder

starts = Path(sys.argv[1])
number = len(starts.read_text()) if starts.exists() else 0
starts.write_text("x" * (number + 1))
code = ([int(each) for each in sys.argv[2].split(",")] + [0])[number]
folder = StateFolder("p")
with folder.locked():
    folder.write(RunStatus(
        name="p", kind="sql", state=RunState.FAILED if code else RunState.FINISHED,
        pid=os.getpid(), definition="p.toml", master="local[*]", started_at=now_text(),
        restarts=int(os.environ["GOQUEUE_PIPELINE_RESTARTS"]),
        error=f"trouble {number}" if code else None,
    ))
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
QUICK = Restarts(first_wait_seconds=0.01, max_wait_seconds=0.02, max_failures=3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    monkeypatch.setenv("GOQUEUE_PIPELINES", str(tmp_path / "state"))
    return StateFolder("p")


def supervise(
    folder: StateFolder, tmp_path: Path, codes: str, restarts: Restarts = QUICK
) -> tuple[int, list[str]]:
    said: list[str] = []
    supervisor = Supervisor(folder, restarts, say=said.append, stays_failed=(2, 3))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "starts"), codes]
    return supervisor.run(command), said


def test_waits_grow_up_to_a_bound() -> None:
    waits = [Restarts().wait_seconds(failures) for failures in range(1, 10)]
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_run_that_failed_is_begun_again(folder: StateFolder, tmp_path: Path) -> None:
    code, said = supervise(folder, tmp_path, "1,-9,0")
    assert code == 0
    assert said[0] == "p: failed: trouble 0; begins again in 0 s (restart 1)"
    assert len(said) == 2
    assert folder.status().state is RunState.FINISHED
    assert folder.status().restarts == 2
    assert not folder.is_locked()


def test_what_no_further_try_mends_ends_it(folder: StateFolder, tmp_path: Path) -> None:
    assert supervise(folder, tmp_path, "1,2") == (
        2,
        ["p: failed: trouble 0; begins again in 0 s (restart 1)"],
    )


def test_it_gives_up_after_some_failures_in_a_row(folder: StateFolder, tmp_path: Path) -> None:
    with pytest.raises(GaveUp, match=r"failed 4 times in a row; the last time: trouble 3"):
        supervise(folder, tmp_path, "1,1,1,1,1")
    assert folder.status().state is RunState.FAILED


def test_while_it_waits_it_is_seen_locked_and_stopped(folder: StateFolder, tmp_path: Path) -> None:
    slow = Restarts(first_wait_seconds=3600, max_wait_seconds=3600)
    found: list[tuple[int, list[str]]] = []
    watching = threading.Thread(
        target=lambda: found.append(supervise(folder, tmp_path, "1", slow)), daemon=True
    )
    watching.start()
    deadline = threading.Event()
    for _ in range(int(stretched(60) / 0.05)):
        if folder.status_path.exists() and folder.status().state is RunState.WAITING:
            break
        deadline.wait(0.05)
    waiting = folder.status()
    assert (waiting.state, waiting.restarts, waiting.error) == (RunState.WAITING, 1, "trouble 0")
    assert waiting.next_start_at is not None
    assert waiting.next_start_at > now_text()
    assert folder.is_locked()
    folder.request_stop()
    watching.join(stretched(30))
    assert found[0][0] == 0
    assert folder.status().state is RunState.STOPPED


def test_a_watcher_that_died_is_noticed(folder: StateFolder) -> None:
    with folder.locked():
        folder.write(
            RunStatus(
                name="p",
                kind="sql",
                state=RunState.WAITING,
                pid=os.getpid(),
                definition="p.toml",
                master="local[*]",
                started_at=now_text(),
            )
        )
        assert folder.status().state is RunState.WAITING
    assert folder.status().state is RunState.FAILED
