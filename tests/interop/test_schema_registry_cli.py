"""`goqueue schemas` against a real server."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from goqueue.cli.main import app
from tests.interop.servers import Server

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
PROTO = 'syntax = "proto3";\n\nmessage M {\n  string a = 1;\n}'


class Command:
    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, *arguments: str, fails: bool = False, stdin: str | None = None) -> str:
        """Standard output; of a command that fails, standard error."""
        environment = {"GOQUEUE_HTTP_URL": self._url}
        result = CliRunner().invoke(app, ["schemas", *arguments], env=environment, input=stdin)
        assert (result.exit_code != 0) is fails, result.output
        return result.stderr if fails else result.stdout


@pytest.fixture
def run(server: Server) -> Command:
    return Command(server.http_url)


def test_a_schema_by_hand(run: Command, tmp_path: Path) -> None:
    first = tmp_path / "order.avsc"
    first.write_text(json.dumps(ORDER))
    required = {"name": "count", "type": "int"}
    wrong = tmp_path / "wrong.avsc"
    wrong.write_text(json.dumps({**ORDER, "fields": [*ORDER["fields"], required]}))
    registered = json.loads(run("register", str(first), "-s", "orders-value", "-o", "json"))
    assert registered[0]["version"] == 1
    assert "compatible" in run("check", str(first), "--subject", "orders-value")
    said = run("check", str(wrong), "-s", "orders-value", "--version", "1", fails=True)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in said
    said = run("register", str(wrong), "-s", "orders-value", fails=True)
    assert said.startswith("goqueue: Schema being registered is incompatible")
    assert json.loads(run("show", "orders-value")) == ORDER
    assert json.loads(run("show", "--id", str(registered[0]["id"]))) == ORDER
    assert yaml.safe_load(run("show", "orders-value", "-o", "yaml"))["version"] == 1
    assert "orders-value" in run("list", "--prefix", "orders")
    assert "1" in run("stats")


def test_references_and_types(run: Command, tmp_path: Path) -> None:
    (tmp_path / "m.proto").write_text(PROTO)
    run("register", str(tmp_path / "m.proto"), "-s", "m")
    user = 'syntax = "proto3"; import "m.proto"; message N { M m = 1; }'
    arguments = ("register", "-", "-s", "n", "--type", "protobuf", "--reference", "m.proto=m:1")
    run(*arguments, stdin=user)
    assert run("show", "m").strip() == PROTO
    listed = json.loads(run("list", "-o", "json"))
    assert [row["uses"] for row in listed if row["subject"] == "n"] == [["m"]]
    assert "One or more references exist" in run("delete", "m", fails=True)
    assert "NAME=SUBJECT:VERSION" in run(*arguments[:-1], "m.proto", stdin=user, fails=True)
    assert "--type" in run("register", "-", "-s", "n", stdin=user, fails=True)
    assert "cannot be read" in run("register", "none.avsc", "-s", "n", fails=True)


def test_settings_and_deleting(run: Command, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    run("register", str(tmp_path / "order.avsc"), "-s", "gone")
    run("config", "set", "full_transitive", "-s", "gone", "--normalize")
    (config,) = json.loads(run("config", "get", "-s", "gone", "-o", "json"))
    assert (config["compatibilityLevel"], config["normalize"]) == ("FULL_TRANSITIVE", True)
    run("config", "unset", "-s", "gone")
    assert "BACKWARD" in run("config", "get", "-s", "gone")
    assert "LEVEL" in run("config", "set", fails=True)
    run("mode", "set", "readonly", "-s", "gone")
    assert "READONLY" in run("mode", "get", "-s", "gone")
    assert "read-only" in run("delete", "gone", fails=True)
    run("mode", "set", "readwrite", "-s", "gone")
    assert run("delete", "gone", "--version", "1") == "deleted: gone version 1\n"
    assert run("delete", "gone", "--permanent") == "deleted for good: gone version 1\n"
    assert "not found" in run("show", "gone", fails=True)


def test_contexts(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    staging = ("--context", "staging")
    made = json.loads(run("register", str(file), "-s", "a-value", *staging, "-o", "json"))
    assert (made[0]["id"], made[0]["version"]) == (1, 1)
    run("register", str(file), "-s", ":.staging:b-value")
    assert json.loads(run("show", "--id", "1", *staging)) == ORDER
    assert json.loads(run("show", ":.staging:a-value")) == ORDER
    listed = json.loads(run("list", *staging, "-o", "json"))
    assert [each["subject"] for each in listed] == [":.staging:a-value", ":.staging:b-value"]
    everywhere = json.loads(run("list", "--prefix", "a-", "-o", "json"))
    assert ":.staging:a-value" in [each["subject"] for each in everywhere]
    assert "compatible" in run("check", str(file), "-s", "a-value", *staging)
    assert "context staging" in run("config", "set", "NONE", *staging)
    assert "NONE" in run("config", "get", "-s", "a-value", *staging)
    assert "NONE" not in run("config", "get")
    run("mode", "set", "READONLY", *staging)
    assert "READONLY" in run("mode", "get", "-s", "a-value", *staging)
    assert "read-only" in run("delete", "a-value", *staging, fails=True)
    run("mode", "set", "READWRITE", "-s", ":.staging:")
    assert ".staging" in run("contexts", "list")
    assert "not empty" in run("contexts", "delete", ".staging", fails=True)
    for name in ("a-value", "b-value"):
        run("delete", name, *staging)
        run("delete", name, *staging, "--permanent")
    assert "deleted" in run("contexts", "delete", ".staging")
    assert ".staging" not in run("contexts", "list")
