import json

import pytest

from goqueue.doors.sqs.errors import ErrorKind
from goqueue.doors.sqs.refusals import refusal
from goqueue.model.errors import InvalidRequest
from goqueue.model.queues.attributes import (
    RedrivePolicy,
    check_attributes,
    check_name,
    parse_redrive_allow_policy,
    parse_redrive_policy,
)
from goqueue.model.queues.policies import Permission, check_permission, with_statement
from goqueue.model.queues.refusals import OverLimit

ARN = "arn:aws:sqs:us-east-1:000000000000:dead"


def policy(**fields: object) -> str:
    return json.dumps(fields)


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 80])
def test_good_names(name: str) -> None:
    check_name(name, {})


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 81, "a.fifo", "ä", "a\n"])
def test_bad_names(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_name(name, {})
    assert refusal(caught.value).kind is ErrorKind.INVALID_PARAMETER_VALUE


@pytest.mark.parametrize("name", ["a", "a.fifo.x", ".fifo", "x" * 76 + ".fifo"])
def test_bad_fifo_names(name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"must end with \.fifo"):
        check_name(name, {"FifoQueue": "true"})


@pytest.mark.parametrize(
    ("attribute", "text", "max_bytes"),
    [
        ("Policy", policy(Id=""), 8_192),
        ("RedrivePolicy", policy(deadLetterTargetArn=ARN, maxReceiveCount=3), 8_192),
        ("RedriveAllowPolicy", policy(redrivePermission="allowAll"), 8_192),
        ("KmsMasterKeyId", "key", 2_048),
    ],
)
def test_texts_are_as_long_as_with_aws(attribute: str, text: str, max_bytes: int) -> None:
    check_attributes("q", {attribute: text.ljust(max_bytes)}, is_new=True)
    for longer in (text.ljust(max_bytes + 1), text.ljust(max_bytes - 1, "\u2003")):
        with pytest.raises(InvalidRequest, match=f"{attribute}.*at most {max_bytes}") as caught:
            check_attributes("q", {attribute: longer}, is_new=True)
        assert refusal(caught.value).kind is ErrorKind.INVALID_ATTRIBUTE_VALUE


def test_permissions_make_no_policy_too_long() -> None:
    text = policy(Statement=[{"Sid": "first", "Comment": "x" * 7_700}])
    text = with_statement(text, ARN, Permission("short", ["1"], ["*"]))
    with pytest.raises(OverLimit, match="8192"):
        with_statement(text, ARN, Permission("long", ["1" * 200], ["*"]))


@pytest.mark.parametrize("label", ["", "a b", "x" * 81, "x" * 100_000])
def test_bad_labels_of_permissions(label: str) -> None:
    with pytest.raises(InvalidRequest, match="parameter Label") as caught:
        check_permission(Permission(label, ["1"], ["*"]))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("DelaySeconds", "901"),
        ("DelaySeconds", "-1"),
        ("DelaySeconds", "x"),
        ("MaximumMessageSize", "1023"),
        ("MaximumMessageSize", "1048577"),
        ("MessageRetentionPeriod", "59"),
        ("MessageRetentionPeriod", "1209601"),
        ("ReceiveMessageWaitTimeSeconds", "21"),
        ("VisibilityTimeout", "43201"),
        ("KmsDataKeyReusePeriodSeconds", "59"),
        ("SqsManagedSseEnabled", "yes"),
    ],
)
def test_bad_values(attribute: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match=attribute) as caught:
        check_attributes("q", {attribute: value}, is_new=True)
    assert refusal(caught.value).kind is ErrorKind.INVALID_ATTRIBUTE_VALUE


@pytest.mark.parametrize(
    "attribute", ["Nonsense", "QueueArn", "CreatedTimestamp", "FifoQueue", "DeduplicationScope"]
)
def test_attributes_that_a_standard_queue_does_not_have(attribute: str) -> None:
    with pytest.raises(InvalidRequest, match=f"Unknown Attribute {attribute}"):
        check_attributes("q", {attribute: "true"}, is_new=True)


def test_high_throughput_needs_the_scope_of_groups() -> None:
    high = {"FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "queue"}
    with pytest.raises(InvalidRequest, match="DeduplicationScope"):
        check_attributes("q.fifo", high, is_new=True)


def test_redrive_policy() -> None:
    for count in (5, "5"):
        text = policy(deadLetterTargetArn=ARN, maxReceiveCount=count)
        assert parse_redrive_policy(text) == RedrivePolicy("dead", 5)
    assert parse_redrive_policy("") is None


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        policy(maxReceiveCount=1),
        policy(deadLetterTargetArn=ARN),
        policy(deadLetterTargetArn="dummy", maxReceiveCount=42),
        policy(deadLetterTargetArn=ARN, maxReceiveCount=0),
        policy(deadLetterTargetArn=ARN, maxReceiveCount=1001),
        policy(deadLetterTargetArn=ARN, maxReceiveCount="many"),
        policy(deadLetterTargetArn=ARN, maxReceiveCount=1, more=1),
    ],
)
def test_bad_redrive_policies(text: str) -> None:
    with pytest.raises(InvalidRequest, match="RedrivePolicy") as caught:
        parse_redrive_policy(text)
    assert refusal(caught.value).kind is ErrorKind.INVALID_PARAMETER_VALUE


def test_redrive_allow_policy() -> None:
    assert parse_redrive_allow_policy("").allows("any")
    assert parse_redrive_allow_policy(policy(redrivePermission="allowAll")).allows("any")
    assert not parse_redrive_allow_policy(policy(redrivePermission="denyAll")).allows("any")
    chosen = parse_redrive_allow_policy(policy(redrivePermission="byQueue", sourceQueueArns=[ARN]))
    assert chosen.allows("dead")
    assert not chosen.allows("other")


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        policy(redrivePermission="some"),
        policy(redrivePermission="byQueue"),
        policy(redrivePermission="byQueue", sourceQueueArns=[ARN] * 11),
        policy(redrivePermission="byQueue", sourceQueueArns=["x"]),
        policy(redrivePermission="allowAll", sourceQueueArns=[ARN]),
    ],
)
def test_bad_redrive_allow_policies(text: str) -> None:
    with pytest.raises(InvalidRequest, match="RedriveAllowPolicy"):
        parse_redrive_allow_policy(text)
