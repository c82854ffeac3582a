"""`goqueue serve`: how a process starts, ends, and what it refuses to start on."""

import json
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.testing import ServerProcess
from tests.busy_machine import stretched
from tests.interop.test_cli import COMMAND, TIMEOUT_SECONDS, Cli, interruptible


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as running:
        yield running


def serve(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, "serve", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=TIMEOUT_SECONDS,
    )


def test_ready_means_ready_and_sigterm_ends_cleanly(own_server: ServerProcess) -> None:
    with urllib.request.urlopen(f"{own_server.http_url}/readyz", timeout=60) as answer:
        assert answer.status == 200
    started = time.monotonic()
    assert own_server.sigterm() == 0
    assert time.monotonic() - started < stretched(2)
    text = own_server.log_text
    assert f"Kafka  {own_server.bootstrap_servers}" in text
    assert f"HTTP   {own_server.http_url}" in text
    assert "stopped cleanly" in text


def test_ends_within_two_seconds_with_clients_connected(own_server: ServerProcess) -> None:
    environment = {**os.environ, "GOQUEUE_BOOTSTRAP": own_server.bootstrap_servers}
    Cli(environment)("produce", "t", "hello")
    following = subprocess.Popen(
        [*COMMAND, "consume", "t", "--follow", "--from-beginning"],
        stdout=subprocess.PIPE,
        env=environment,
        preexec_fn=interruptible,
    )
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == b"hello\n"
        started = time.monotonic()
        assert own_server.sigterm() == 0
        assert time.monotonic() - started < stretched(2)
    finally:
        following.kill()
        following.communicate()


@pytest.mark.usefixtures("own_server")
def test_second_broker_on_the_data_is_refused(tmp_path: Path) -> None:
    done = serve("--data-dir", str(tmp_path / "data"), "--kafka-port", "0", "--http-port", "0")
    assert done.returncode == 1
    assert "in use by another broker" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--kafka-port", "--http-port"])
def test_port_in_use_is_refused(tmp_path: Path, option: str) -> None:
    other = {"--kafka-port": "--http-port", "--http-port": "--kafka-port"}[option]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = serve("--data-dir", str(tmp_path / "data"), option, port, other, "0")
    assert done.returncode == 1
    assert f"port {port} on 127.0.0.1 is in use" in done.stderr
    assert option in done.stderr
    assert done.stderr.count("\n") == 1


def test_damaged_data_directory_is_refused(own_server: ServerProcess, tmp_path: Path) -> None:
    own_server.sigterm()
    format_file = tmp_path / "data" / "format.json"
    damaged, count = re.subn(r'("version": ?)\d+', r"\g<1>9", format_file.read_text())
    assert count == 1
    format_file.write_text(damaged)
    done = serve("--data-dir", str(tmp_path / "data"), "--kafka-port", "0", "--http-port", "0")
    assert done.returncode == 1
    assert str(format_file) in done.stderr
    assert done.stderr.count("\n") == 1


def test_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = serve("--data-dir", str(tmp_path / "file"), "--kafka-port", "0", "--http-port", "0")
    assert done.returncode == 1
    assert str(tmp_path / "file") in done.stderr
    assert done.stderr.count("\n") == 1


def test_settings_from_file_environment_and_options(tmp_path: Path) -> None:
    config = tmp_path / "goqueue.toml"
    config.write_text("num.partitions = 7\ntopic.retention.ms = 1000\nlog.format = 'json'\n")
    environment = {**os.environ, "GOQUEUE_TOPIC_RETENTION_MS": "2000"}
    options = ("--config", str(config), "--set", "topic.segment.ms=3000", "--node-id", "5")
    with ServerProcess(tmp_path / "data", *options, environment=environment) as running:
        cli = Cli({**os.environ, "GOQUEUE_BOOTSTRAP": running.bootstrap_servers})
        cli("topics", "create", "t")
        described = cli.json("topics", "describe", "t")
        assert isinstance(described, dict)
        assert len(described["partitions"]) == 7
        assert described["partitions"][0]["leader"] == 5
        assert described["config"] == {"retention.ms": "2000", "segment.ms": "3000"}
        running.sigterm()
        last_line = running.log_text.splitlines()[-1]
        assert json.loads(last_line)["message"].startswith("stopped cleanly")
