"""`goqueue queue` against a broker whose HTTP address nobody named: its Kafka address is enough."""

import json

import pytest
from typer.testing import CliRunner

from goqueue.cli.main import app


@pytest.fixture
def environment(bootstrap: str) -> dict[str, str]:
    return {"GOQUEUE_BOOTSTRAP": bootstrap}


def run(environment: dict[str, str], *arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, arguments, env=environment)
    assert done.exit_code == code, done.output
    return done.output


def test_a_message_is_taken_kept_and_given_back(environment: dict[str, str], topic: str) -> None:
    run(environment, "topics", "create", topic, "-p", "1", "--set", "queue.ttl.ms=7d")
    described = json.loads(run(environment, "topics", "describe", topic, "-o", "json"))
    assert described["config"] == {"queue.ttl.ms": "604800000"}
    run(environment, "produce", topic, "one")

    wanted = ("queue", "poll", "g", topic, "--wait", "5s", "-o", "json")
    [message] = json.loads(run(environment, *wanted, "--visibility", "1m"))
    receipt = message["receipt"]
    run(environment, "queue", "extend", "g", receipt, "--for", "2m")
    run(environment, "queue", "nack", "g", receipt, "--delay", "5")
    [again] = json.loads(run(environment, *wanted))
    assert (again["value"], again["deliveryCount"]) == ("one", 2)
    run(environment, "queue", "ack", "g", again["receipt"])
    assert "is not a duration" in run(
        environment, "queue", "poll", "g", topic, "--wait", "soon", code=2
    )


def test_the_kafka_address_may_be_an_option(bootstrap: str, topic: str) -> None:
    address = ("--bootstrap", bootstrap)
    [made] = json.loads(run({}, "produce", topic, "x", "--delay", "1h", "-o", "json", *address))
    listed = json.loads(run({}, "delayed", "list", topic, "-o", "json", *address))
    assert [each["id"] for each in listed["messages"]] == [made["id"]]
    for command in ("queue stats", "schemas list", f"dlq list {topic}", "delayed stats", "trace"):
        run({}, *command.split(), *address)


@pytest.mark.parametrize(
    ("command", "next_step"),
    [
        ("dlq list nothing", "there is no topic 'nothing'; see `goqueue topics list`"),
        ("schemas show nothing", "Subject 'nothing' not found; see `goqueue schemas list`"),
        (
            "queue ack g t:0:0:1:7d7e3dea5f06cc61",
            "take the messages anew with `goqueue queue poll`",
        ),
    ],
)
def test_a_refusal_says_what_to_do_next(
    environment: dict[str, str], command: str, next_step: str
) -> None:
    run(environment, "topics", "create", "t", "--if-not-exists")
    run(environment, "queue", "poll", "g", "t")
    assert next_step in run(environment, *command.split(), code=1)


def test_an_address_that_was_given_is_used(environment: dict[str, str]) -> None:
    nowhere = ("--http", "http://127.0.0.1:1")
    assert "no broker answers at http://127.0.0.1:1" in run(
        environment, "queue", "stats", *nowhere, code=1
    )
