"""The command line against a real server process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue.model.partitioner import partition_for_key
from tests.busy_machine import stretched

COMMAND = (sys.executable, "-m", "goqueue")
TIMEOUT_SECONDS = 120


@pytest.fixture
def environment(bootstrap: str) -> dict[str, str]:
    return {**os.environ, "GOQUEUE_BOOTSTRAP": bootstrap, "TZ": "UTC"}


class Done(NamedTuple):
    code: int
    stdout: bytes
    stderr: bytes


class Cli:
    """Runs the command: as a process where it reads standard input, else (faster) in this one."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def __call__(self, *arguments: str, stdin: bytes | None = None, code: int = 0) -> Done:
        done = self._invoke(arguments) if stdin is None else self._run(arguments, stdin)
        assert done.code == code, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        return done

    def _invoke(self, arguments: Sequence[str]) -> Done:
        result = CliRunner().invoke(app, arguments, env=self._environment)
        return Done(result.exit_code, result.stdout_bytes, result.stderr_bytes)

    def _run(self, arguments: Sequence[str], stdin: bytes) -> Done:
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            env=self._environment,
            timeout=TIMEOUT_SECONDS,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str) -> object:
        return json.loads(self(*arguments, "-o", "json").stdout)


@pytest.fixture
def cli(environment: dict[str, str]) -> Cli:
    return Cli(environment)


def messages(cli: Cli, *arguments: str) -> list[dict[str, object]]:
    lines = cli("consume", *arguments, "-o", "json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_topic_from_creation_to_deletion(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "2", "--set", "retention.ms=60000")
    assert b"exists already" in cli("topics", "create", topic, code=1).stderr
    cli("topics", "create", topic, "--if-not-exists")
    cli("produce", topic, "a", "b", "c", "-p", "1")

    (listed,) = [row for row in cli.json("topics", "list") if row["name"] == topic]  # type: ignore[attr-defined]
    assert (listed["partitionCount"], listed["offsets"]) == (2, 3)
    assert listed["sizeBytes"] > 0
    assert topic.encode() in cli("topics", "list").stdout

    cli("topics", "alter", topic, "-p", "4", "--set", "segment.ms=5s", "--unset", "retention.ms")
    described = yaml.safe_load(cli("topics", "describe", topic, "-o", "yaml").stdout)
    assert [p["highWatermark"] for p in described["partitions"]] == [0, 3, 0, 0]
    assert described["config"] == {"segment.ms": "5000"}
    everything = cli.json("topics", "describe", topic, "--all-settings")
    assert everything["config"]["retention.ms"] == "604800000"  # type: ignore[index]

    refused = cli("topics", "delete", topic, code=1).stderr
    assert b"--yes" in refused
    assert topic.encode() in cli("topics", "list").stdout
    cli("topics", "delete", topic, "--yes")
    assert b"there is no topic" in cli("topics", "describe", topic, code=1).stderr
    assert b"there is no topic" in cli("topics", "delete", topic, "--yes", code=1).stderr
    cli("topics", "delete", topic, "--yes", "--if-exists")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("topics", "create", "../etc"), "topic name"),
        (("topics", "create", "t", "--set", "retention.ms=soon"), "retention.ms: 'soon'"),
        (("topics", "create", "t", "--set", "no.such=1"), "no.such"),
        (("topics", "create", "t", "--replication-factor", "9"), "replication"),
        (("topics", "alter", "missing-topic", "--set", "retention.ms=1"), "no topic"),
        (("consume", "missing-topic"), "there is no topic 'missing-topic'"),
    ],
)
def test_refusals_are_one_line(cli: Cli, arguments: tuple[str, ...], reason: str) -> None:
    error = cli(*arguments, code=1).stderr.decode()
    assert reason in error
    assert error.startswith("goqueue: ")
    assert error.count("\n") == 1


def test_fewer_partitions_are_refused(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "3")
    assert b"3" in cli("topics", "alter", topic, "-p", "2", code=1).stderr


def test_lines_with_keys_and_headers(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "1")
    cli("produce", topic, "-K", ":", "-H", "source=test", stdin=b"k1:v1\nk2:v2:more\n\xff:\xfe")
    assert cli("consume", topic).stdout == b"v1\nv2:more\n\xfe\n"
    shown = cli("consume", topic, "--keys", "--headers", "--offsets", "--separator", "|").stdout
    assert shown.splitlines()[:2] == [b"0:0|source=test|k1|v1", b"0:1|source=test|k2|v2:more"]
    assert (
        b"no ':' between key and value"
        in cli("produce", topic, "-K", ":", stdin=b"nothing\n", code=1).stderr
    )


def test_json_lines_go_round(cli: Cli, topic: str, tmp_path: Path) -> None:
    cli("topics", "create", topic, f"{topic}-copy", "-p", "3")
    sent = [
        {"key": "a", "value": {"n": 1}, "headers": {"h": "x"}, "partition": 2},
        {"value": None, "key": "a", "partition": 2},
        {"value": "AP8=", "encoding": "base64", "partition": 2, "timestamp": 1_700_000_000_000},
    ]
    file = tmp_path / "lines.json"
    file.write_text("\n".join(map(json.dumps, sent)))
    cli("produce", topic, "--json", "--file", str(file))
    found = messages(cli, topic, "-p", "2")
    assert [m["value"] for m in found] == ['{"n":1}', None, "AP8="]
    assert found[2]["encoding"] == "base64"
    assert found[2]["timestamp"] == 1_700_000_000_000

    out = cli("consume", topic, "-o", "json").stdout
    cli("produce", f"{topic}-copy", "--json", stdin=out)
    copied = messages(cli, f"{topic}-copy", "-p", "2")
    assert [{**m, "topic": topic} for m in copied] == found
    assert yaml.safe_load(cli("consume", topic, "-o", "yaml").stdout) == messages(cli, topic)


@pytest.mark.parametrize(
    ("compression", "acks"), [("gzip", "1"), ("snappy", "all"), ("lz4", "1"), ("zstd", "all")]
)
def test_compressions(cli: Cli, topic: str, compression: str, acks: str) -> None:
    lines = b"".join(b"line %d\n" % n for n in range(500))
    cli("produce", topic, "-p", "0", "-z", compression, "--acks", acks, stdin=lines)
    # With acks=1 the last may not be committed yet, and nobody reads them before.
    deadline = time.monotonic() + stretched(10)
    while (read := cli("consume", topic).stdout) != lines:
        assert (acks, lines[: len(read)]) == ("1", read)
        assert time.monotonic() < deadline


def test_messages_without_key_are_spread_and_keys_stay_together(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "4")
    lines = b"".join(b"%d:%d\n" % (n % 20, n) for n in range(20_000))
    cli("produce", topic, stdin=lines * 5)
    used = {m["partition"] for m in messages(cli, topic)}
    assert len(used) > 1

    cli("topics", "create", f"{topic}-keyed", "-p", "4")
    cli("produce", f"{topic}-keyed", "-K", ":", stdin=lines)
    found = messages(cli, f"{topic}-keyed")
    assert len(found) == 20_000
    assert {(m["key"], m["partition"]) for m in found} == {
        (str(key), partition_for_key(str(key).encode(), 4)) for key in range(20)
    }
    of_one_key = [int(str(m["value"])) for m in found if m["key"] == "7"]
    assert of_one_key == sorted(of_one_key)


def test_too_large_a_message_says_what_to_do(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "--set", "max.message.bytes=1000")
    cli("produce", topic, "x" * 500)
    error = cli("produce", topic, "x" * 2000, code=1).stderr
    assert b"max.message.bytes" in error


def test_sending_without_acknowledgement(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "1")
    assert b"sent 2 messages" in cli("produce", topic, "a", "b", "--acks", "0").stderr
    assert cli("consume", topic, "--follow", "--from-beginning", "-n", "2").stdout == b"a\nb\n"


def test_where_to_begin_and_where_to_stop(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "-p", "1")
    lines = [
        json.dumps({"value": str(n), "timestamp": 1_700_000_000_000 + n * 1000}) for n in range(10)
    ]
    cli("produce", topic, "--json", stdin="\n".join(lines).encode())

    def values(*arguments: str) -> list[int]:
        return [int(line) for line in cli("consume", topic, *arguments).stdout.split()]

    assert values() == list(range(10))
    assert values("--from-beginning", "--limit", "3") == [0, 1, 2]
    assert values("--from-offset", "8") == [8, 9]
    assert values("--from-offset", "-2") == [8, 9]
    assert values("--from-offset", "99") == []
    assert values("--from-time", "2023-11-14T22:13:24Z", "-n", "2") == [4, 5]
    assert values("--since", "1700000000500", "--until", "1700000003000") == [1, 2]
    assert values("--since", "1h ago") == []


def interruptible() -> None:
    """Shells let programs in the background ignore Ctrl-C, and so would the tests' own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_follow_prints_what_comes_until_interrupted(
    cli: Cli, environment: dict[str, str], topic: str
) -> None:
    cli("topics", "create", topic, "-p", "2")
    cli("produce", topic, "old", "-p", "0")
    following = subprocess.Popen(
        [*COMMAND, "consume", topic, "--follow", "--from-offset", "0", "--keys"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        preexec_fn=interruptible,
    )
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == b"\told\n"
        cli("produce", topic, "-k", "key", "new", "-p", "1")
        assert following.stdout.readline() == b"key\tnew\n"
        following.send_signal(signal.SIGINT)
        _, errors = following.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        following.kill()
        following.wait()
    assert (following.returncode, errors) == (130, b"")


def test_a_reader_that_stops_early_is_no_error(
    cli: Cli, environment: dict[str, str], topic: str
) -> None:
    cli("produce", topic, "-p", "0", stdin=b"some line of text\n" * 20_000)
    command = f"{sys.executable} -m goqueue consume {topic} | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        env=environment,
        timeout=TIMEOUT_SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"some line of text\n", b"")


def test_typed_lines_are_sent_at_once(cli: Cli, environment: dict[str, str], topic: str) -> None:
    cli("topics", "create", topic, "-p", "1")
    producing = subprocess.Popen(
        [*COMMAND, "produce", topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        preexec_fn=interruptible,
    )
    try:
        assert producing.stdin is not None
        producing.stdin.write(b"first\n")
        producing.stdin.flush()
        following = cli("consume", topic, "--follow", "--from-beginning", "--limit", "1")
        assert following.stdout == b"first\n"
        producing.send_signal(signal.SIGINT)
        assert producing.wait(TIMEOUT_SECONDS) == 130
    finally:
        producing.kill()
        producing.communicate()
