"""The command without a broker: help, usage, one-line errors, and what is imported for it."""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from goqueue import __version__
from goqueue.cli.main import app
from goqueue.cli.output import print_table, size_text


def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments), env=environment)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_version() -> None:
    assert run("--version") == (0, f"goqueue {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("produce",),
        ("topics", "alter", "t"),
        ("topics", "create", "t", "--set", "no-equals-sign"),
        ("topics", "create", "t", "--partitions", "0"),
        ("topics", "list", "-o", "xml"),
        ("tenants", "create", "t", "--limit", "topics=nan"),
        ("tenants", "limit", "t", "--set", "topics=1e999"),
        ("quotas", "set", "--user", "a", "producer_byte_rate=inf"),
        ("consume", "t", "--from-time", "whenever"),
        ("consume", "t", "--from-beginning", "--from-offset", "4"),
        ("consume", "t", "--follow", "--until", "now"),
        ("produce", "t", "--json", "--key", "k"),
        ("produce", "t", "value", "--file", "x"),
        ("cluster", "elect", "--partition", "1"),
        ("cluster", "elect", "--unclean"),
        ("cluster", "partitions", "--problem", "hunger"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "list"),
        ("topics", "create", "t"),
        ("produce", "t", "hello"),
        ("consume", "t"),
        ("produce", "t", "hello", "--delay", "5s"),
        ("queue", "poll", "g", "t"),
        ("trace",),
        ("schemas", "list"),
        ("cluster", "status"),
        ("cluster", "elect"),
    ],
)
def test_no_broker_is_one_line_with_the_next_step(
    command: tuple[str, ...], closed_port: int
) -> None:
    address = f"127.0.0.1:{closed_port}"
    code, out, err = run(*command, GOQUEUE_BOOTSTRAP=address)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert f"no broker answers at {address}" in err
    assert "goqueue serve" in err


def every_command(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What users type, with the library's own object for it, which has no types."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


EVERY_COMMAND = list(every_command(get_command(app)))
# They run no client: of a broker, of a folder, of Spark, whose definition has the address.
WITHOUT_ADDRESS = {
    "serve",
    "data",
    "pipeline",
    "settings",
    "cluster adopt",
    "profile",
    "secure",
} | {f"backup {name}" for name in ("list", "verify", "restore", "prune")}


@pytest.mark.parametrize(
    ("path", "command"),
    [pytest.param(path, command, id=" ".join(path)) for path, command in EVERY_COMMAND],
)
def test_one_address_is_enough(path: tuple[str, ...], command: Any) -> None:
    """Commands that talk HTTP find that address out: all take --bootstrap, and in one way."""
    options = {option: each for each in command.params for option in each.opts}
    if path[0] in WITHOUT_ADDRESS or " ".join(path) in WITHOUT_ADDRESS:
        # A profile keeps the address for others.
        assert "--bootstrap" not in options or path == ("profile", "create")
        return
    bootstrap = options["--bootstrap"]
    assert options["-b"] is bootstrap
    assert (bootstrap.envvar, bootstrap.default) == ("GOQUEUE_BOOTSTRAP", "127.0.0.1:9092")


@pytest.mark.parametrize(
    ("path", "command"),
    [pytest.param(path, command, id=" ".join(path)) for path, command in EVERY_COMMAND],
)
def test_help_explains_everything_and_has_examples(path: tuple[str, ...], command: Any) -> None:
    code, out, _ = run(*path, "--help")
    assert code == 0
    assert "Usage:" in out
    assert command.help
    unexplained = [each.name for each in command.params if not each.help]
    assert not unexplained
    in_lower_case = [
        each.name
        for each in command.params
        if each.param_type_name == "argument"
        if not (each.metavar or "").isupper()
    ]
    assert not in_lower_case
    heading, *examples = command.epilog.split("\n\n")
    assert heading == "Examples:"
    assert examples
    for example in examples:
        assert example in " ".join(out.split())
        program, *words = shlex.split(example)
        assert (program, *words[: len(path)]) == ("goqueue", *path)
        # Reads the options as a real call does, and does nothing.
        command.make_context(path[-1], words[len(path) :])


def test_address_that_is_none(closed_port: int) -> None:
    code, _, err = run("topics", "list", "--bootstrap", f"localhost:{closed_port}x")
    assert code == 1
    assert "is not an address; write host:port" in err


def test_a_cluster_that_does_not_answer(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.cli.security.stopped_users.CLUSTER_PATIENCE_SECONDS", 0.2)
    cluster = f"etcd://127.0.0.1:{closed_port}"
    code, _, said = run("users", "create", "root", "--admin", "--generate", "--cluster", cluster)
    assert code == 1
    assert f"--cluster: {cluster} does not answer" in said


def test_missing_input_file(closed_port: int) -> None:
    code, _, err = run("produce", "t", "--file", "missing", "-b", f"127.0.0.1:{closed_port}")
    assert (code, err) == (1, "goqueue: cannot read missing: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--set", "kafka.prt=1"), "command line: kafka.prt: no such setting"),
        (("--kafka-port", "70000"), "kafka.port: 70000 is above the maximum 65535"),
        (("--config", "missing.toml"), "config file missing.toml: No such file or directory"),
    ],
)
def test_serve_refuses_bad_settings(arguments: tuple[str, ...], reason: str) -> None:
    code, _, err = run("serve", *arguments)
    assert code == 1
    assert reason in err
    assert err.count("\n") == 1


def test_settings_in_every_format() -> None:
    code, table, _ = run("settings", "fsync")
    assert code == 0
    assert "topic.fsync.policy" in table
    _, text, _ = run("settings", "fsync", "-o", "json")
    _, also_text, _ = run("settings", "fsync", "-o", "yaml")
    (row,) = json.loads(text)
    assert yaml.safe_load(also_text) == [row]
    assert (row["variable"], row["default"]) == ("GOQUEUE_TOPIC_FSYNC_POLICY", "interval")


def test_tables_are_not_cut_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 400
    print_table([{"a": long, "n": 5, "none": None}], columns={"a": "A", "n": "N", "none": "?"})
    assert capsys.readouterr().out.splitlines()[-1].split() == [long, "5", "-"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")],
)
def test_sizes(size: int | None, text: str) -> None:
    assert size_text(size) == text


def test_help_and_completion_import_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "import goqueue.cli.main\n"
        "heavy = {'kio', 'aiokafka', 'litestar', 'uvloop', 'yaml', 'tomllib'}\n"
        "heavy |= {'goqueue.broker', 'goqueue.doors', 'goqueue.server.process'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert out.stdout.strip() == "[]"


def test_shell_completion_is_offered() -> None:
    environment = {**os.environ, "_GOQUEUE_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    environment["COMP_WORDS"] = "goqueue to"
    command = [str(Path(sys.executable).with_name("goqueue"))]
    out = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30)
    assert "topics" in out.stdout
