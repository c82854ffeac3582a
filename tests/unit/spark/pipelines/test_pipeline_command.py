"""`goqueue pipeline` without Spark and without a broker."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue.spark.pipelines import checks
from goqueue.spark.pipelines.checks import load_pipeline
from goqueue.spark.pipelines.kinds import NAMES
from goqueue.spark.pipelines.run_status import RunState
from goqueue.spark.pipelines.state_folder import StateFolder
from tests.unit.spark.pipelines.test_definitions import SOUND
from tests.unit.spark.pipelines.test_state_folder import status


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GOQUEUE_PIPELINES", raising=False)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["pipeline", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("kind", NAMES)
def test_init_writes_a_sound_example(kind: str) -> None:
    assert run("init", "mine", "--kind", kind)[0] == 0
    assert run("check", "--offline", "mine") == (
        0,
        "mine/pipeline.toml: pipeline 'mine' is sound\n",
        "",
    )
    code, _, err = run("init", "mine", "--kind", kind)
    assert (code, "is there already" in err) == (1, True)


@pytest.mark.parametrize("arguments", [("init", "Bad Name"), ("init", "x", "--kind", "nope")])
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[0] == 2


def test_problems_are_listed() -> None:
    Path("p.toml").write_text(SOUND.replace('"5s"', '"soon"').replace("json", "jsn"))
    code, out, err = run("run", "p.toml")
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert lines[0].startswith("p.toml:7: source[1].format: 'jsn' is not one of")
    assert lines[1].startswith("p.toml:14: run.trigger: ")
    assert lines[2] == "goqueue: 2 problems; nothing was started"
    assert not Path(".goqueue").exists()


@pytest.mark.parametrize("how", [("check",), ("run",), ("run", "--detach")])
def test_no_broker_is_said_at_once(how: tuple[str, ...]) -> None:
    Path("p.toml").write_text(SOUND.replace("9092", "1"))
    started = time.monotonic()
    code, _, err = run(*how, "p.toml")
    assert code == 4
    assert err.startswith("p.toml:3: bootstrap.servers: no broker answers at 127.0.0.1:1: ")
    assert time.monotonic() - started < 5
    assert run("list")[1].count("running") == 0


def test_spark_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("p.toml").write_text(SOUND)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name)
    )
    code, _, err = run("run", "p.toml")
    assert (code, err) == (
        1,
        "goqueue: pipelines need pyspark; install with: pip install 'goqueue[spark]'\n",
    )


def test_dry_runs_are_for_kinds_that_have_one() -> None:
    Path("p.toml").write_text(SOUND)
    code, _, err = run("run", "--dry-run", "p.toml")
    assert code == 2
    assert "kind sql has none" in err


def test_status_list_and_stop_of_what_ended() -> None:
    assert run("list")[0] == 0
    code, _, err = run("status", "p")
    assert (code, "no pipeline 'p' has run here" in err) == (1, True)
    folder = StateFolder("p")
    with folder.locked():
        folder.write(status(RunState.RUNNING))
        assert "running" in run("list")[1]
    code, out, _ = run("status", "p", "-o", "json")
    assert (code, json.loads(out)["state"]) == (1, "failed")
    assert run("stop", "p") == (0, "p is not running (failed)\n", "")
    assert run("stop", "../p")[0] == 2
    folder.log_path.write_text("one\ntwo\n")
    assert run("logs", "p", "-n", "1") == (0, "two\n", "")
    assert run("logs", "q")[0] == 1
    code, out, _ = run("metrics")
    assert 'goqueue_pipeline_state{kind="sql",pipeline="p",state="failed"} 1.0' in out
    assert run("metrics", "--listen", "9464")[0] == 2


def test_a_second_run_is_told_who_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("p.toml").write_text(SOUND)
    monkeypatch.setattr(checks, "check_broker", lambda pipeline: None)
    name = load_pipeline(Path("p.toml")).definition.name
    with StateFolder(name).locked():
        for how in ((), ("--detach",), ("--restart",)):
            code, _, err = run("run", *how, "p.toml")
            assert code == 3, how
            assert f"is running already (process {os.getpid()} on " in err, how


def test_the_command_does_not_import_spark() -> None:
    code = "import sys; import goqueue.cli.main; print([m for m in sys.modules if 'spark' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
