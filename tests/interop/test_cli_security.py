"""`goqueue secure init` and everything after it, as somebody does it who has nothing yet."""

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import httpx
import pytest
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue.testing import ServerProcess
from goqueue.testing.ports import free_port


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Stranger:
    """In a folder of its own, with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kafka_port, self.http_port = free_port(), free_port()
        told = {name: None for name in os.environ if name.startswith("GOQUEUE_")}
        self.environment: dict[str, str | None] = {
            **told,
            "XDG_CONFIG_HOME": str(folder / "config"),
            "TZ": "UTC",
        }

    def run(self, *arguments: str, stdin: str = "", **variables: str) -> Done:
        result = CliRunner().invoke(
            app, list(arguments), input=stdin, env={**self.environment, **variables}
        )
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return Done(result.exit_code, result.stdout, result.stderr)

    def ok(self, *arguments: str, stdin: str = "", **variables: str) -> str:
        done = self.run(*arguments, stdin=stdin, **variables)
        assert done.code == 0, done.err
        return done.out

    def refused(self, *arguments: str, stdin: str = "", **variables: str) -> str:
        done = self.run(*arguments, stdin=stdin, **variables)
        assert done.code != 0
        assert "Traceback" not in done.err
        return " ".join(done.err.split())

    def document(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "-o", "json"))

    @property
    def security(self) -> Path:
        return self.folder / "security"

    def init(self, *more: str) -> str:
        return self.ok(
            *("secure", "init", "--dir", str(self.security)),
            *("--data-dir", str(self.folder / "data")),
            *("--kafka-port", str(self.kafka_port), "--http-port", str(self.http_port)),
            *more,
        )

    def server(self, *options: str) -> ServerProcess:
        return ServerProcess(
            self.folder / "data",
            *("--config", str(self.security / "goqueue.toml")),
            *options,
            kafka_port=self.kafka_port,
            http_port=self.http_port,
        )


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    stranger = Stranger(tmp_path_factory.mktemp("stranger"))
    stranger.init()
    with stranger.server():
        yield stranger


@pytest.fixture
def alice(stranger: Stranger) -> Iterator[tuple[str, ...]]:
    """Options to ask as her."""
    file = stranger.folder / "alice.password"
    file.write_text("s3cret\n")
    stranger.ok("users", "create", "alice", "--new-password-file", str(file))
    yield "--username", "alice", "--password-file", str(file)
    stranger.ok("users", "delete", "alice", "--yes")
    stranger.run("acls", "remove", "--principal", "alice", "--yes")


def test_what_was_made_is_for_its_owner_alone(stranger: Stranger) -> None:
    for path in [*stranger.security.iterdir(), *(stranger.folder / "config").rglob("*.toml")]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(stranger.security.stat().st_mode) == 0o700


def test_nothing_is_written_over(stranger: Stranger) -> None:
    before = {path: path.read_bytes() for path in stranger.security.iterdir()}
    assert "is not empty" in stranger.refused("secure", "init", "--dir", str(stranger.security))
    elsewhere = str(stranger.folder / "elsewhere")
    assert "profile 'secured' already" in stranger.refused("secure", "init", "--dir", elsewhere)
    told = stranger.refused(
        *("secure", "init", "--dir", elsewhere, "--profile", "other"),
        *("--data-dir", str(stranger.folder / "data")),
    )
    assert "stop it first" in told
    assert not (stranger.folder / "elsewhere").exists()
    assert before == {path: path.read_bytes() for path in stranger.security.iterdir()}


def test_the_first_message(stranger: Stranger) -> None:
    stranger.ok("produce", "orders", "two coffees")
    assert "two coffees\n" in stranger.ok("consume", "orders")
    assert "User:admin" in stranger.ok("whoami")
    assert stranger.document("whoami") == {"principal": "User:admin", "tenant": "", "door": "http"}
    assert stranger.document("users", "list")[0]["admin"] is True
    assert "healthy" in stranger.ok("cluster", "status")
    stranger.ok("queue", "poll", "workers", "orders")
    stranger.ok("schemas", "list")
    stranger.ok("backup", "create", str(stranger.folder / "backups"))


@pytest.mark.parametrize(
    "command",
    [
        ("whoami",),
        ("topics", "list"),
        ("produce", "orders", "x"),
        ("consume", "orders"),
        ("groups", "list"),
        ("queue", "poll", "w", "orders"),
    ],
)
def test_wrong_credentials_are_told_as_such(stranger: Stranger, command: tuple[str, ...]) -> None:
    wrong = stranger.folder / "wrong"
    wrong.write_text("wrong\n")
    for name in ("admin", "nobody"):
        told = stranger.refused(*command, "--username", name, "--password-file", str(wrong))
        assert "authentication failed" in told
        assert "--password-file" in told
    assert "no password of 'admin' is given" in stranger.refused(*command, "--username", "admin")
    other = stranger.folder / "other-ca"
    other.mkdir(exist_ok=True)
    if not (other / "ca.pem").exists():
        from goqueue.server.tls.making import make_certificates

        make_certificates(other, ["localhost"])
    told = stranger.refused(*command, "--ca-file", str(other / "ca.pem"))
    assert "certificate" in told
    assert "--ca-file" in told or command[0] in ("whoami", "queue")


def test_without_tls_or_a_profile(stranger: Stranger) -> None:
    address = f"127.0.0.1:{stranger.kafka_port}"
    for command in (("topics", "list"), ("produce", "orders", "x")):
        told = stranger.refused(*command, "--bootstrap", address)
        assert "speaks TLS, and the client does not; see --profile, or --ca-file" in told
    # The profile in use is for its own broker; named, it is used here, too.
    stranger.ok("topics", "list", "--bootstrap", address, "--profile", "secured")


def test_rules_allow_and_take_back(stranger: Stranger, alice: tuple[str, ...]) -> None:
    stranger.ok("topics", "create", "teas")
    denied = "authorization failed; see `goqueue whoami`"
    assert denied in stranger.refused("produce", "teas", "x", *alice)
    made = stranger.document("acls", "add", "--allow", "alice", "--producer", "--topic", "teas")
    assert {rule["operation"] for rule in made} == {"write", "create", "describe"}
    stranger.ok("produce", "teas", "green", *alice)
    assert denied in stranger.refused("consume", "teas", *alice)
    stranger.ok(
        *("acls", "add", "--allow", "User:alice", "--consumer"),
        *("--topic", "te", "--group", "*", "--prefixed"),
    )
    assert stranger.ok("consume", "teas", *alice) == "green\n"
    counting = stranger.document("acls", "list", "--topic", "teas", "--pattern", "match")
    assert {(rule["name"], rule["pattern"]) for rule in counting} == {
        ("teas", "literal"),
        ("te", "prefixed"),
    }
    stranger.ok("acls", "add", "--deny", "alice", "--operation", "read", "--topic", "*")
    assert denied in stranger.refused("consume", "teas", *alice)
    assert "Remove" in stranger.refused("acls", "remove", "--principal", "alice")
    gone = stranger.document("acls", "remove", "--principal", "alice", "--yes")
    assert len(gone) == 7
    assert "no such rules" in stranger.run("acls", "list", "--principal", "alice").err
    assert denied in stranger.refused("produce", "teas", "x", *alice)
    assert "is not allowed to" in stranger.refused("users", "list", *alice)


def test_users(stranger: Stranger, alice: tuple[str, ...]) -> None:
    assert "'alice' is there already" in stranger.refused("users", "create", "alice")
    shown = stranger.document("users", "show", "alice")
    assert (shown["name"], shown["admin"], shown["keys"], shown["rules"]) == (
        "alice",
        False,
        [],
        [],
    )
    stranger.ok("users", "promote", "alice")
    stranger.ok("users", "list", *alice)
    stranger.ok("users", "demote", "alice", "--yes")
    stranger.ok("users", "federate", "alice")
    assert stranger.document("users", "show", "alice")["federated"]
    stranger.ok("users", "federate", "alice", "--off")
    assert not stranger.document("users", "show", "alice")["federated"]
    for what in ("demote", "delete"):
        assert "only administrator" in stranger.refused("users", what, "admin", "--yes")
    # Everyone may change its own password.
    told = stranger.ok("users", "passwd", "alice", "--generate", *alice)
    generated = re.search(r"password of alice: (\S{24})\n", told)
    assert generated is not None
    assert "authentication failed" in stranger.refused("topics", "list", *alice)
    stranger.ok("topics", "list", "--username", "alice", GOQUEUE_PASSWORD=generated[1])
    assert "is not there; see `goqueue users list`" in stranger.refused("users", "show", "bob")


def test_a_password_on_the_command_line_is_warned_of(stranger: Stranger) -> None:
    done = stranger.run("users", "create", "carol", "--new-password", "hunter2")
    assert done.code == 0
    assert "seen by others" in done.err
    assert "hunter2" not in done.out + done.err
    stranger.ok("users", "delete", "carol", "--yes")


def test_keys_with_lines_to_paste(stranger: Stranger, alice: tuple[str, ...]) -> None:
    stranger.ok("topics", "create", "jobs")
    stranger.ok("acls", "add", "--allow", "alice", "--topic", "jobs")
    printed = stranger.ok("keys", "create", "alice", "--kind", "sqs", "--label", "worker")
    program = printed[printed.index("import boto3") :]
    names: dict[str, Any] = {}
    exec(program, names)
    (url,) = names["sqs"].list_queues()["QueueUrls"]
    names["sqs"].send_message(QueueUrl=url, MessageBody="hello")
    environment = dict(re.findall(r"export (\w+)=(\S+)", printed))
    signed = boto3.client(
        "sqs",
        endpoint_url=environment["AWS_ENDPOINT_URL_SQS"],
        region_name=environment["AWS_DEFAULT_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key="of somebody else",
        verify=environment["AWS_CA_BUNDLE"],
    )
    with pytest.raises(signed.exceptions.ClientError, match="SignatureDoesNotMatch"):
        signed.list_queues()

    printed = stranger.ok("keys", "create", "alice", "--expires-in", "90 days", *alice)
    done = subprocess.run(
        ["bash", "-c", printed[printed.index("export ") :]], capture_output=True, check=True
    )
    assert json.loads(done.stdout)["principal"] == "User:alice"
    token = re.findall(r"GOQUEUE_API_KEY=(\S+)", printed)[0]
    http = ("--http", f"https://localhost:{stranger.http_port}")
    ca = ("--ca-file", str(stranger.security / "ca.pem"))
    stranger.ok("profile", "use")
    try:
        assert "User:alice" in stranger.ok("whoami", *ca, *http, GOQUEUE_API_KEY=token)
        told = stranger.refused("topics", "list", *ca, GOQUEUE_API_KEY=token)
        assert "an API key is for HTTP" in told
    finally:
        stranger.ok("profile", "use", "secured")
    found = stranger.document("keys", "list", "--user", "alice")
    assert {each["kind"] for each in found} == {"api", "sqs"}
    assert "secret" not in json.dumps(found)
    stranger.ok("keys", "delete", *(each["id"] for each in found), "--yes")
    assert "is not there" in stranger.refused("keys", "delete", found[0]["id"], "--yes")
    with pytest.raises(names["sqs"].exceptions.ClientError):
        names["sqs"].list_queues()


@pytest.mark.parametrize(
    "arguments",
    [
        ("acls", "add", "--topic", "t"),
        ("acls", "add", "--allow", "alice"),
        ("acls", "add", "--allow", "alice", "--producer"),
        ("acls", "add", "--allow", "alice", "--consumer", "--topic", "t"),
        ("acls", "add", "--allow", "alice", "--producer", "--operation", "read", "--topic", "t"),
        ("acls", "add", "--allow", "alice", "--operation", "fly", "--topic", "t"),
        ("acls", "remove",),
        ("keys", "create", "admin", "--kind", "gold"),
        ("keys", "create", "admin", "--expires-in", "soon"),
        ("users", "create", "x", "--generate", "--new-password-file", "-"),
        ("tenants", "limit", "acme"),
        ("profile", "create", "empty"),
    ],
)  # fmt: skip
def test_wrong_usage(stranger: Stranger, arguments: tuple[str, ...]) -> None:
    assert stranger.run(*arguments).code == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("users", "create", "a:b"), "user name"),
        (("users", "create", "__brokers__"), "user name"),
        (("users", "create", "x", "--new-password-file", "/no/such"), "No such file"),
        (("acls", "add", "--allow", "alice", "--host", "here", "--topic", "t"), "IP address"),
        (("keys", "create", "nobody"), "'nobody' is not there"),
        (("profile", "create", "a b", "--bootstrap", "x:1"), "must have 1 to 64"),
        (("profile", "show", "none"), "no profile 'none'"),
        (("topics", "list", "--profile", "none"), "no profile 'none'"),
    ],
)
def test_what_the_broker_or_the_command_refuses(
    stranger: Stranger, arguments: tuple[str, ...], told: str
) -> None:
    assert told in stranger.refused(*arguments)


def test_a_certificate_is_renewed_while_clients_go_on(stranger: Stranger) -> None:
    before = (stranger.security / "broker.pem").read_bytes()
    told = stranger.ok("secure", "renew", "--dir", str(stranger.security))
    assert "localhost, 127.0.0.1, ::1" in told
    assert (stranger.security / "broker.pem").read_bytes() != before
    stranger.ok("topics", "list")


def test_profiles(stranger: Stranger) -> None:
    stranger.ok(
        *("profile", "create", "bare", "--username", "admin", "--password-env", "PW"),
        *("--bootstrap", f"localhost:{stranger.kafka_port}"),
        *("--ca-file", str(stranger.security / "ca.pem")),
    )
    password = (stranger.security / "admin.password").read_text().strip()
    assert "variable PW is not set" in stranger.refused("topics", "list", "--profile", "bare")
    stranger.ok("topics", "list", "--profile", "bare", PW=password)
    stranger.ok("--profile", "bare", "whoami", PW=password)
    stranger.ok("whoami", PW=password, GOQUEUE_PROFILE="bare")
    assert "there is a profile 'bare' already" in stranger.refused(
        "profile", "create", "bare", "--tls"
    )
    assert [(row["name"], row["inUse"]) for row in stranger.document("profile", "list")] == [
        ("bare", False),
        ("secured", True),
    ]
    assert "Delete profile" in stranger.refused("profile", "delete", "bare")
    stranger.ok("profile", "delete", "bare", "--yes")


def test_the_broker_refuses_nobody_over_http(stranger: Stranger) -> None:
    import ssl

    context = ssl.create_default_context(cafile=str(stranger.security / "ca.pem"))
    with httpx.Client(base_url=f"https://localhost:{stranger.http_port}", verify=context) as client:
        assert client.get("/topics").status_code == 401


def test_users_of_a_stopped_broker(tmp_path: Path) -> None:
    own = Stranger(tmp_path)
    own.init("--admin", "root", "--profile", "mine")
    data = str(own.folder / "data")
    made = own.ok("users", "create", "second", "--admin", "--generate", "--data-dir", data)
    assert "created administrator second" in made
    generated = re.findall(r"password of second: (\S+)", made)[0]
    assert "is there already" in own.refused("users", "create", "second", "--data-dir", data)
    with own.server():
        told = own.refused("users", "create", "third", "--admin", "--data-dir", data)
        assert "stop it first" in told
        assert "goqueue users create third --admin" in told
        names = {each["name"] for each in own.document("users", "list")}
        assert names == {"root", "second"}
        shown = own.ok("whoami", "--username", "second", GOQUEUE_PASSWORD=generated)
        assert "User:second" in shown


def test_workers_with_a_bootstrap_file(tmp_path: Path) -> None:
    own = Stranger(tmp_path)
    own.init("--for-cluster")
    server = ServerProcess(
        own.folder / "data",
        *("--config", str(own.security / "goqueue.toml")),
        workers=2,
    )
    with server:
        where = ("--bootstrap", server.bootstrap_servers, "--http", server.http_url)
        named = ("--profile", "secured", *where)
        assert "User:admin" in own.ok("whoami", *named)
        own.ok("produce", "orders", "one", *named[:4])
        assert own.ok("consume", "orders", *named[:4]) == "one\n"
    data = str(own.folder / "data")
    made = own.ok("users", "create", "second", "--generate", "--data-dir", data)
    assert "created user second" in made
    with server:
        names = {each["name"] for each in own.document("users", "list", *named)}
        assert names == {"admin", "second"}
