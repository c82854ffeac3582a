"""What the SQS tests share: a boto3 client, and waiting for what takes a moment."""

import time
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

REGION = "eu-central-1"

T = TypeVar("T")


def connect(url: str) -> Any:
    # A failure must be seen, not repeated away.
    config = Config(retries={"total_max_attempts": 1}, connect_timeout=30, read_timeout=60)
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=config,
    )


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:000000000000:{name}"


def new_name(suffix: str = "") -> str:
    return f"queue-{uuid4().hex[:10]}{suffix}"


def new_queue(sqs: Any, **attributes: str) -> str:
    """A queue of its own for a test; returns its URL."""
    suffix = ".fifo" if attributes.get("FifoQueue") == "true" else ""
    url: str = sqs.create_queue(QueueName=new_name(suffix), Attributes=attributes)["QueueUrl"]
    return url


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def receive(sqs: Any, url: str, count: int = 10, **options: Any) -> list[dict[str, Any]]:
    answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=count, **options)
    found: list[dict[str, Any]] = answer.get("Messages", [])
    return found


def receive_all(sqs: Any, url: str, wanted: int, **options: Any) -> list[dict[str, Any]]:
    """Poll until `wanted` messages came; for queues of several partitions."""
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + 60
    while len(found) < wanted and time.monotonic() < deadline:
        found += receive(sqs, url, WaitTimeSeconds=1, **options)
    return found


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def attribute(sqs: Any, url: str, name: str) -> str:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    value: str = answer["Attributes"][name]
    return value


def eventually(look: Callable[[], T], is_good: Callable[[T], bool]) -> T:
    deadline = time.monotonic() + 60
    while True:
        found = look()
        if is_good(found) or time.monotonic() > deadline:
            assert is_good(found), found
            return found
        time.sleep(0.02)


def refused(call: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    """The error that a call is answered with: Code, QueryErrorCode, Message, Type, Status."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response: dict[str, Any] = caught.value.response
    return {**response["Error"], "Status": response["ResponseMetadata"]["HTTPStatusCode"]}


def refused_with(call: Callable[..., Any], **arguments: Any) -> str:
    code: str = refused(call, **arguments)["Code"]
    return code
