"""Dead letters brought back by move tasks."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import NewServer, Server
from tests.interop.sqs_api import (
    arn,
    attribute,
    bodies,
    connect,
    eventually,
    name_of,
    new_queue,
    receive_all,
    refused,
)


@pytest.fixture
def sqs(server: Server) -> Any:
    return connect(server.http_url)


def with_dead_letters(sqs: Any, count: int, **attributes: str) -> tuple[str, str]:
    """A queue whose messages all failed, and its dead-letter queue."""
    dead = new_queue(sqs, **attributes)
    policy = json.dumps({"deadLetterTargetArn": arn(name_of(dead)), "maxReceiveCount": 1})
    source = new_queue(sqs, RedrivePolicy=policy, VisibilityTimeout="0", **attributes)
    bury(sqs, source, dead, count)
    return source, dead


def bury(sqs: Any, source: str, dead: str, count: int) -> None:
    before = int(attribute(sqs, dead, "ApproximateNumberOfMessages"))
    for n in range(count):
        sqs.send_message(QueueUrl=source, MessageBody=f"{name_of(source)} {n}")
    receive_all(sqs, source, count)
    eventually(
        lambda: int(attribute(sqs, dead, "ApproximateNumberOfMessages")),
        lambda found: found == before + count,
    )


def listed(sqs: Any, dead: str) -> dict[str, Any]:
    results: list[dict[str, Any]] = sqs.list_message_move_tasks(SourceArn=arn(name_of(dead))).get(
        "Results", []
    )
    return results[0] if results else {}


def test_back_to_where_they_came_from(sqs: Any) -> None:
    first, dead = with_dead_letters(sqs, 3)
    policy = json.dumps({"deadLetterTargetArn": arn(name_of(dead)), "maxReceiveCount": 1})
    second = new_queue(sqs, RedrivePolicy=policy, VisibilityTimeout="0")
    bury(sqs, second, dead, 2)
    for url in (first, second):
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "30"})
    sqs.start_message_move_task(SourceArn=arn(name_of(dead)))
    task = eventually(lambda: listed(sqs, dead), lambda found: found.get("Status") == "COMPLETED")
    assert task["ApproximateNumberOfMessagesMoved"] == 5
    assert task["ApproximateNumberOfMessagesToMove"] == 5
    assert task["SourceArn"] == arn(name_of(dead))
    assert "DestinationArn" not in task
    assert "TaskHandle" not in task
    for url, count in ((first, 3), (second, 2)):
        messages = receive_all(sqs, url, count, AttributeNames=["All"])
        assert sorted(bodies(messages)) == [f"{name_of(url)} {n}" for n in range(count)]
        for message in messages:
            assert "DeadLetterQueueSourceArn" not in message["Attributes"]
            assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert attribute(sqs, dead, "ApproximateNumberOfMessages") == "0"


def test_to_another_queue(sqs: Any) -> None:
    _, dead = with_dead_letters(sqs, 3)
    other = new_queue(sqs)
    sqs.start_message_move_task(SourceArn=arn(name_of(dead)), DestinationArn=arn(name_of(other)))
    task = eventually(lambda: listed(sqs, dead), lambda found: found.get("Status") == "COMPLETED")
    assert task["DestinationArn"] == arn(name_of(other))
    assert len(receive_all(sqs, other, 3)) == 3


def test_a_message_that_never_died_ends_a_task_and_stays(sqs: Any) -> None:
    """It says nothing of where to go back to; others can have it at once."""
    _, dead = with_dead_letters(sqs, 1)
    sqs.send_message(QueueUrl=dead, MessageBody="no dead letter")
    sqs.start_message_move_task(SourceArn=arn(name_of(dead)))
    task = eventually(lambda: listed(sqs, dead), lambda found: found.get("Status") == "FAILED")
    assert task["FailureReason"] == "AWS.SimpleQueueService.UnsupportedOperation"
    assert "no dead letter" in bodies(receive_all(sqs, dead, 2))


def test_a_slow_task_is_cancelled(sqs: Any) -> None:
    _, dead = with_dead_letters(sqs, 4)
    other = new_queue(sqs)
    request = {
        "SourceArn": arn(name_of(dead)),
        "DestinationArn": arn(name_of(other)),
        "MaxNumberOfMessagesPerSecond": 1,
    }
    handle = sqs.start_message_move_task(**request)["TaskHandle"]
    running = listed(sqs, dead)
    assert running["Status"] == "RUNNING"
    assert running["TaskHandle"] == handle
    assert running["MaxNumberOfMessagesPerSecond"] == 1
    error = refused(sqs.start_message_move_task, **request)
    assert error["Message"].startswith("There is already a task running.")
    moved = sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]
    assert moved < 4
    assert listed(sqs, dead)["Status"] == "CANCELLED"
    assert refused(sqs.cancel_message_move_task, TaskHandle=handle)["Code"] == (
        "AWS.SimpleQueueService.UnsupportedOperation"
    )
    left = attribute(sqs, dead, "ApproximateNumberOfMessages")
    assert int(left) + moved == 4


def test_what_is_refused(sqs: Any) -> None:
    _, dead = with_dead_letters(sqs, 1)
    plain = new_queue(sqs)

    def start(**fields: Any) -> tuple[str, int, str]:
        error = refused(sqs.start_message_move_task, **fields)
        return error["Code"], error["Status"], error["Message"]

    assert start(SourceArn=arn(name_of(plain))) == (
        "InvalidParameterValue",
        400,
        "Source queue must be configured as a Dead Letter Queue.",
    )
    missing = start(SourceArn=arn("queue-that-is-not-there"))
    assert missing[:2] == ("ResourceNotFoundException", 404)
    missing = start(SourceArn=arn(name_of(dead)), DestinationArn=arn("queue-not-there"))
    assert missing[0] == "ResourceNotFoundException"
    assert "DestinationArn" in missing[2]
    assert start(SourceArn="nonsense")[0] == "InvalidParameterValue"
    fast = {"SourceArn": arn(name_of(dead)), "MaxNumberOfMessagesPerSecond": 501}
    assert start(**fast)[0] == "InvalidParameterValue"
    cancel = sqs.cancel_message_move_task
    assert refused(cancel, TaskHandle="nonsense")["Code"] == "InvalidParameterValue"
    unknown = base64.b64encode(json.dumps(["x", arn(name_of(dead))]).encode()).decode()
    assert refused(cancel, TaskHandle=unknown)["Message"] == "Task does not exist."


@pytest.fixture
def killable(new_server: NewServer, tmp_path: Path) -> Iterator[Server]:
    with new_server(tmp_path / "data") as running:
        yield running


def test_a_task_goes_on_after_a_crash(killable: Server) -> None:
    sqs = connect(killable.http_url)
    _, dead = with_dead_letters(sqs, 4)
    other = new_queue(sqs)
    sqs.start_message_move_task(
        SourceArn=arn(name_of(dead)),
        DestinationArn=arn(name_of(other)),
        MaxNumberOfMessagesPerSecond=2,
    )
    killable.sigkill()
    killable.start()
    sqs = connect(killable.http_url)
    eventually(lambda: listed(sqs, dead), lambda found: found.get("Status") == "COMPLETED")
    # What was under way when it ended may come twice.
    assert len(set(bodies(receive_all(sqs, other, 4)))) == 4
    assert attribute(sqs, dead, "ApproximateNumberOfMessages") == "0"
