"""Queues through boto3: made, found, configured, tagged, permitted, purged and deleted."""

import json
from typing import Any

import pytest

from tests.interop.servers import Server
from tests.interop.sqs_api import (
    arn,
    attribute,
    bodies,
    connect,
    eventually,
    name_of,
    new_name,
    new_queue,
    receive,
    receive_all,
    refused,
    refused_with,
)


@pytest.fixture
def sqs(server: Server) -> Any:
    return connect(server.http_url)


def test_a_queue_is_made_found_listed_and_deleted(sqs: Any, server: Server) -> None:
    name = new_name()
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    assert url == f"{server.http_url}/000000000000/{name}"
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]
    sqs.delete_queue(QueueUrl=url)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)
    error = refused(sqs.get_queue_url, QueueName=name)
    assert error == {
        "Code": "AWS.SimpleQueueService.NonExistentQueue",
        "QueryErrorCode": "QueueDoesNotExist",
        "Message": "The specified queue does not exist.",
        "Type": "Sender",
        "Status": 400,
    }
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.send_message(QueueUrl=url, MessageBody="x")


def test_making_a_queue_again(sqs: Any) -> None:
    name = new_name()
    first = sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "5"})
    same = sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "5"})
    assert same["QueueUrl"] == first["QueueUrl"]
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == first["QueueUrl"]
    error = refused(sqs.create_queue, QueueName=name, Attributes={"DelaySeconds": "6"})
    assert (error["Code"], error["QueryErrorCode"]) == ("QueueAlreadyExists", "QueueNameExists")
    assert error["Message"].endswith("a different value for attribute DelaySeconds")


def test_lists_come_in_pages(sqs: Any) -> None:
    prefix = new_name("-")
    urls = [sqs.create_queue(QueueName=f"{prefix}{n}")["QueueUrl"] for n in range(5)]
    pages = sqs.get_paginator("list_queues").paginate(
        QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2}
    )
    found = [page.get("QueueUrls", []) for page in pages]
    assert [len(page) for page in found] == [2, 2, 1]
    assert sorted(url for page in found for url in page) == sorted(urls)
    bad = refused_with(sqs.list_queues, MaxResults=2, NextToken="not hex")
    assert bad == "InvalidParameterValue"
    assert refused_with(sqs.list_queues, MaxResults=1001) == "InvalidParameterValue"


@pytest.mark.parametrize("name", ["a b", "x.y", "x" * 81, "standard.fifo"])
def test_names_that_are_refused(sqs: Any, name: str) -> None:
    assert refused_with(sqs.create_queue, QueueName=name) == "InvalidParameterValue"


def test_fifo_queues_end_in_fifo(sqs: Any) -> None:
    fifo = {"FifoQueue": "true"}
    code = refused_with(sqs.create_queue, QueueName=new_name(), Attributes=fifo)
    assert code == "InvalidParameterValue"
    url = new_queue(sqs, FifoQueue="true")
    all_of_them = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert all_of_them["FifoQueue"] == "true"
    assert all_of_them["ContentBasedDeduplication"] == "false"
    assert all_of_them["DeduplicationScope"] == "queue"
    assert all_of_them["FifoThroughputLimit"] == "perQueue"
    error = refused(sqs.set_queue_attributes, QueueUrl=url, Attributes={"FifoQueue": "false"})
    assert error["Code"] == "InvalidAttributeValue"
    assert "Modifying queue type is not supported" in error["Message"]


def test_attributes_of_a_new_queue(sqs: Any) -> None:
    url = new_queue(sqs)
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert found.pop("CreatedTimestamp") == found.pop("LastModifiedTimestamp")
    assert found == {
        "QueueArn": arn(name_of(url)),
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "ApproximateNumberOfMessagesDelayed": "0",
        "VisibilityTimeout": "30",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "DelaySeconds": "0",
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
    }
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url)


def test_attributes_are_set_and_checked(sqs: Any) -> None:
    url = new_queue(sqs, VisibilityTimeout="20", KmsMasterKeyId="key", SqsManagedSseEnabled="false")
    changes = {
        "VisibilityTimeout": "69",
        "MessageRetentionPeriod": "600",
        "ReceiveMessageWaitTimeSeconds": "3",
        "MaximumMessageSize": "2048",
        "DelaySeconds": "0",
        "Policy": '{"Version": "2012-10-17", "Statement": []}',
        "KmsMasterKeyId": "",
    }
    sqs.set_queue_attributes(QueueUrl=url, Attributes=changes)
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert "KmsMasterKeyId" not in found
    del changes["KmsMasterKeyId"]
    assert found | changes == found
    for attributes, code in (
        ({"Nonsense": "1"}, "InvalidAttributeName"),
        ({"QueueArn": "x"}, "InvalidAttributeName"),
        ({"FifoQueue": "true"}, "InvalidAttributeName"),
        ({"VisibilityTimeout": "43201"}, "InvalidAttributeValue"),
        ({"Policy": "no json"}, "InvalidParameterValue"),
        ({"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}, "InvalidAttributeName"),
    ):
        assert refused_with(sqs.set_queue_attributes, QueueUrl=url, Attributes=attributes) == code
    assert attribute(sqs, url, "VisibilityTimeout") == "69"
    unknown = refused_with(sqs.get_queue_attributes, QueueUrl=url, AttributeNames=["Nonsense"])
    assert unknown == "InvalidAttributeName"


def test_tags(sqs: Any) -> None:
    name = new_name()
    url = sqs.create_queue(QueueName=name, tags={"team": "a", "empty": ""})["QueueUrl"]
    sqs.tag_queue(QueueUrl=url, Tags={"team": "b", "more": "c"})
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "b", "empty": "", "more": "c"}
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "empty", "never"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"more": "c"}
    many = {str(n): "x" for n in range(50)}
    assert refused_with(sqs.tag_queue, QueueUrl=url, Tags=many) == "InvalidParameterValue"
    sqs.untag_queue(QueueUrl=url, TagKeys=["more"])
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)


def test_permissions_are_kept_in_the_policy(sqs: Any) -> None:
    url = new_queue(sqs)
    grant = {
        "Label": "readers",
        "AWSAccountIds": ["111111111111", "222222222222"],
        "Actions": ["ReceiveMessage"],
    }
    sqs.add_permission(QueueUrl=url, **grant)
    [statement] = json.loads(attribute(sqs, url, "Policy"))["Statement"]
    assert statement == {
        "Sid": "readers",
        "Effect": "Allow",
        "Principal": {"AWS": ["arn:aws:iam::111111111111:root", "arn:aws:iam::222222222222:root"]},
        "Action": "SQS:ReceiveMessage",
        "Resource": arn(name_of(url)),
    }
    again = refused(sqs.add_permission, QueueUrl=url, **grant)
    assert again["Message"] == (
        "Value readers for parameter Label is invalid. Reason: Already exists."
    )
    bad_action = {**grant, "Label": "x", "Actions": ["Fly"]}
    assert refused_with(sqs.add_permission, QueueUrl=url, **bad_action) == "InvalidParameterValue"
    too_many = {**grant, "Label": "x", "Actions": ["SendMessage"] * 8}
    assert refused_with(sqs.add_permission, QueueUrl=url, **too_many) == "OverLimit"
    sqs.remove_permission(QueueUrl=url, Label="readers")
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])
    gone = refused_with(sqs.remove_permission, QueueUrl=url, Label="readers")
    assert gone == "InvalidParameterValue"


def test_purging(sqs: Any) -> None:
    url = new_queue(sqs)
    for n in range(4):
        sqs.send_message(QueueUrl=url, MessageBody=str(n))
    assert len(receive(sqs, url, 1)) == 1
    sqs.purge_queue(QueueUrl=url)
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "0"
    assert attribute(sqs, url, "ApproximateNumberOfMessagesNotVisible") == "0"
    error = refused(sqs.purge_queue, QueueUrl=url)
    assert error["Code"] == "AWS.SimpleQueueService.PurgeQueueInProgress"
    assert error["Status"] == 403
    sqs.send_message(QueueUrl=url, MessageBody="after")
    assert bodies(receive_all(sqs, url, 1)) == ["after"]


def test_counts(sqs: Any) -> None:
    url = new_queue(sqs)
    for n in range(5):
        sqs.send_message(QueueUrl=url, MessageBody=str(n))
    taken = receive_all(sqs, url, 2, count=1)
    assert attribute(sqs, url, "ApproximateNumberOfMessages") == "3"
    assert attribute(sqs, url, "ApproximateNumberOfMessagesNotVisible") == "2"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=taken[0]["ReceiptHandle"])
    assert attribute(sqs, url, "ApproximateNumberOfMessagesNotVisible") == "1"


@pytest.mark.parametrize(
    "url", ["not a name", "http://127.0.0.1/", "http://127.0.0.1/queue", "http://h/1/2/3"]
)
def test_addresses_that_are_none(sqs: Any, url: str) -> None:
    error = refused(sqs.receive_message, QueueUrl=url)
    assert error["Code"] == "InvalidAddress"
    assert error["Status"] == 404


def test_a_queue_may_be_called_by_its_bare_name(sqs: Any) -> None:
    url = new_queue(sqs)
    sqs.send_message(QueueUrl=name_of(url), MessageBody="m")
    assert attribute(sqs, name_of(url), "ApproximateNumberOfMessages") == "1"


@pytest.mark.parametrize("url", ["nothing-of-this-name", "http://whatever-incorrect-address"])
def test_names_and_hosts_without_a_queue(sqs: Any, url: str) -> None:
    error = refused(sqs.receive_message, QueueUrl=url)
    assert error["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_truth_values_may_have_a_capital(sqs: Any) -> None:
    name = new_name(".fifo")
    attributes = {"FifoQueue": "True", "ContentBasedDeduplication": "True"}
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    assert attribute(sqs, url, "FifoQueue") == "true"
    assert attribute(sqs, url, "ContentBasedDeduplication") == "true"
    # The same queue, whichever way it is written.
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    assert sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"] == url
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"ContentBasedDeduplication": "False"})
    assert attribute(sqs, url, "ContentBasedDeduplication") == "false"
    error = refused(
        sqs.set_queue_attributes, QueueUrl=url, Attributes={"ContentBasedDeduplication": "yes"}
    )
    assert error["Code"] == "InvalidAttributeValue"


# --- dead letters -------------------------------------------------------------------------


def redrive(target: str, count: int) -> str:
    return json.dumps({"deadLetterTargetArn": arn(target), "maxReceiveCount": str(count)})


def test_messages_that_fail_go_to_the_dead_letter_queue(sqs: Any) -> None:
    dead = new_queue(sqs)
    url = new_queue(sqs, RedrivePolicy=redrive(name_of(dead), 2), VisibilityTimeout="0")
    sent = sqs.send_message(
        QueueUrl=url,
        MessageBody="poison",
        MessageAttributes={"n": {"DataType": "Number", "StringValue": "7"}},
    )
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    assert sqs.list_dead_letter_source_queues(QueueUrl=url)["queueUrls"] == []
    counts: list[str] = []
    while len(counts) < 2:
        for message in receive(sqs, url, AttributeNames=["All"], WaitTimeSeconds=2):
            counts.append(message["Attributes"]["ApproximateReceiveCount"])
    assert counts == ["1", "2"]
    [message] = eventually(
        lambda: receive(sqs, dead, AttributeNames=["All"], MessageAttributeNames=["All"]), bool
    )
    assert message["Body"] == "poison"
    assert message["MessageId"] == sent["MessageId"]
    assert message["MessageAttributes"]["n"] == {"DataType": "Number", "StringValue": "7"}
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == arn(name_of(url))
    # It was received twice before.
    assert message["Attributes"]["ApproximateReceiveCount"] == "3"
    assert receive(sqs, url) == []


def test_without_a_policy_nothing_is_given_up(sqs: Any) -> None:
    url = new_queue(sqs, VisibilityTimeout="0")
    sqs.send_message(QueueUrl=url, MessageBody="again")
    counts: list[str] = []
    while len(counts) < 8:
        for message in receive(sqs, url, AttributeNames=["All"], WaitTimeSeconds=2):
            counts.append(message["Attributes"]["ApproximateReceiveCount"])
    assert counts == [str(n) for n in range(1, 9)]


def test_redrive_policies_are_checked(sqs: Any) -> None:
    url = new_queue(sqs)
    closed = new_queue(sqs, RedriveAllowPolicy='{"redrivePermission": "denyAll"}')
    other_type = new_queue(sqs, FifoQueue="true")

    def set_policy(text: str) -> str:
        error = refused(sqs.set_queue_attributes, QueueUrl=url, Attributes={"RedrivePolicy": text})
        assert error["Code"] == "InvalidParameterValue"
        message: str = error["Message"]
        return message

    assert "does not exist" in set_policy(redrive("queue-that-is-not-there", 3))
    assert "same type" in set_policy(redrive(name_of(other_type), 3))
    assert "not allowed" in set_policy(redrive(name_of(closed), 3))
    assert "deadLetterTargetArn" in set_policy('{"maxReceiveCount": 3}')
    allowed = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn(name_of(url))]})
    sqs.set_queue_attributes(QueueUrl=closed, Attributes={"RedriveAllowPolicy": allowed})
    policy = redrive(name_of(closed), 3)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})
    assert attribute(sqs, url, "RedrivePolicy") == policy
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    assert sqs.list_dead_letter_source_queues(QueueUrl=closed)["queueUrls"] == []
