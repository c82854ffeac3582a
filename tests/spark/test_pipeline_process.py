"""A pipeline as a process of its own: in the background, killed, run again, stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.spark.pipelines.run_status import RunState
from goqueue.spark.pipelines.state_folder import StateFolder
from tests.spark.committed_reading import values_of
from tests.spark.pipeline_runs import write_pipeline

Send = Callable[..., None]
MakeTopic = Callable[..., str]
# A process starts Java, which takes its time on a busy machine.
WAIT_SECONDS = 100.0


def goqueue(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "goqueue", "pipeline", *arguments],
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    return done.returncode, done.stdout, done.stderr


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(5 * WAIT_SECONDS)
def test_a_run_in_the_background(
    bootstrap: str,
    make_topic: MakeTopic,
    send: Send,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOQUEUE_PIPELINES", str(tmp_path / "state"))
    folder = StateFolder("copy")
    source, sink = make_topic(), make_topic()
    path = write_pipeline(
        tmp_path,
        f"""name = "copy"
kind = "sql"
bootstrap.servers = "{bootstrap}"
[[source]]
name = "words"
topic = "{source}"
[sql]
query = "SELECT value FROM words"
[sink]
topic = "{sink}"
[run]
trigger = "100 ms"
master = "local[1]"
""",
    )
    code, _, err = goqueue(tmp_path, "run", "--master", "spark://127.0.0.1:1", str(path))
    assert (code, "no Spark master answers at 127.0.0.1:1" in err) == (4, True)
    code, _, err = goqueue(tmp_path, "check", str(path), JAVA_HOME=str(tmp_path))
    assert (code, "where there is no java; Spark needs Java 17" in err) == (1, True)
    assert folder.status().state is RunState.FAILED

    send(source, [b"1"])
    code, out, err = goqueue(tmp_path, "run", "--detach", str(path))
    assert (code, err) == (0, "")
    assert "copy: running, process" in out
    wait_for(lambda: values_of(bootstrap, sink) == [b"1"], "the first record")
    code, out, err = goqueue(tmp_path, "run", str(path))
    assert code == 3
    assert f"pipeline 'copy' is running already (process {folder.status().pid} on " in err

    pid = folder.status().pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: folder.status().state is RunState.FAILED, "the dead process is noticed")
    code, out, _ = goqueue(tmp_path, "status", "copy")
    assert code == 1
    assert f"process {pid} ended without a word" in out

    send(source, [b"2"])
    assert goqueue(tmp_path, "run", "--detach", "--restart", str(path))[0] == 0
    wait_for(lambda: values_of(bootstrap, sink) == [b"1", b"2"], "the second record")

    killed = folder.status().pid
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: folder.status().state is RunState.WAITING, "its watcher notices")
    assert "its process ended by signal 9" in (folder.status().error or "")
    send(source, [b"3"])
    wait_for(lambda: values_of(bootstrap, sink) == [b"1", b"2", b"3"], "the third record")
    assert folder.status().restarts == 1
    assert folder.status().pid != killed
    assert "begins again in 5 s (restart 1)" in goqueue(tmp_path, "logs", "copy")[1]
    # A batch that is run again does not know it; the next report does.
    wait_for(lambda: folder.status().progress.get("copy", {}).get("lag") == 0, "its lag")
    assert goqueue(tmp_path, "stop", "copy") == (0, "copy: stopped\n", "")
    found = folder.status()
    assert found.state is RunState.STOPPED
    wait_for(lambda: not Path(f"/proc/{found.pid}").exists(), "the process ends")
    assert "stopped" in goqueue(tmp_path, "list")[1]
