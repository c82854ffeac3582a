"""The query protocol that older SDKs speak, by plain requests."""

import xml.etree.ElementTree as ElementTree
from hashlib import md5
from typing import Any

import httpx
import pytest

from tests.interop.servers import Server
from tests.interop.sqs_api import arn, connect, name_of, new_name, new_queue

NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=any/20300101/eu-central-1/sqs/aws4_request, "
    "SignedHeaders=host, Signature=00"
)


class Query:
    def __init__(self, url: str) -> None:
        self._url = url
        self._http = httpx.Client(headers={"authorization": AUTHORIZATION})

    def raw(self, action: str, path: str = "/", **fields: str) -> httpx.Response:
        form = {"Action": action, "Version": "2012-11-05"}
        form.update({name.replace("__", "."): value for name, value in fields.items()})
        return self._http.post(self._url + path, data=form)

    def call(self, action: str, path: str = "/", **fields: str) -> ElementTree.Element:
        response = self.raw(action, path, **fields)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "text/xml"
        root = ElementTree.fromstring(response.content)
        assert root.tag == f"{NAMESPACE}{action}Response"
        request_id = root.findtext(f"{NAMESPACE}ResponseMetadata/{NAMESPACE}RequestId")
        assert request_id == response.headers["x-amzn-requestid"]
        return root

    def error(self, action: str, path: str = "/", **fields: str) -> tuple[int, str, str]:
        response = self.raw(action, path, **fields)
        root = ElementTree.fromstring(response.content)
        assert root.tag == f"{NAMESPACE}ErrorResponse"
        assert root.findtext(f"{NAMESPACE}Error/{NAMESPACE}Type") in ("Sender", "Receiver")
        assert root.findtext(f"{NAMESPACE}RequestId")
        return (
            response.status_code,
            root.findtext(f"{NAMESPACE}Error/{NAMESPACE}Code") or "",
            root.findtext(f"{NAMESPACE}Error/{NAMESPACE}Message") or "",
        )


def texts(root: ElementTree.Element, path: str) -> list[str]:
    tags = "/".join(f"{NAMESPACE}{tag}" for tag in path.split("/"))
    return [element.text or "" for element in root.findall(tags)]


@pytest.fixture
def query(server: Server) -> Query:
    return Query(server.http_url)


@pytest.fixture
def sqs(server: Server) -> Any:
    return connect(server.http_url)


def test_a_message_through_the_query_protocol(query: Query) -> None:
    name = new_name()
    made = query.call(
        "CreateQueue",
        QueueName=name,
        Attribute__1__Name="VisibilityTimeout",
        Attribute__1__Value="40",
        Tag__1__Key="k",
        Tag__1__Value="v",
    )
    [url] = texts(made, "CreateQueueResult/QueueUrl")
    sent = query.call(
        "SendMessage",
        QueueUrl=url,
        MessageBody="a <b> & c",
        MessageAttribute__1__Name="n",
        MessageAttribute__1__Value__DataType="Number",
        MessageAttribute__1__Value__StringValue="7",
    )
    digest = md5(b"a <b> & c", usedforsecurity=False).hexdigest()
    assert texts(sent, "SendMessageResult/MD5OfMessageBody") == [digest]
    received = query.call(
        "ReceiveMessage",
        QueueUrl=url,
        MaxNumberOfMessages="10",
        WaitTimeSeconds="2",
        AttributeName__1="ApproximateReceiveCount",
        MessageAttributeName__1="All",
    )
    message = "ReceiveMessageResult/Message"
    assert texts(received, f"{message}/Body") == ["a <b> & c"]
    assert texts(received, f"{message}/MD5OfBody") == [digest]
    assert texts(received, f"{message}/MessageId") == texts(sent, "SendMessageResult/MessageId")
    assert texts(received, f"{message}/Attribute/Name") == ["ApproximateReceiveCount"]
    assert texts(received, f"{message}/MessageAttribute/Name") == ["n"]
    assert texts(received, f"{message}/MessageAttribute/Value/StringValue") == ["7"]
    [handle] = texts(received, f"{message}/ReceiptHandle")
    query.call("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout="9")
    query.call("DeleteMessage", QueueUrl=url, ReceiptHandle=handle)
    found = query.call("GetQueueAttributes", QueueUrl=url, AttributeName__1="All")
    pairs = dict(
        zip(
            texts(found, "GetQueueAttributesResult/Attribute/Name"),
            texts(found, "GetQueueAttributesResult/Attribute/Value"),
            strict=True,
        )
    )
    assert pairs["VisibilityTimeout"] == "40"
    assert pairs["ApproximateNumberOfMessagesNotVisible"] == "0"
    assert pairs["QueueArn"] == arn(name)
    tags = query.call("ListQueueTags", QueueUrl=url)
    assert texts(tags, "ListQueueTagsResult/Tag/Value") == ["v"]
    listed = query.call("ListQueues", QueueNamePrefix=name)
    assert texts(listed, "ListQueuesResult/QueueUrl") == [url]


def test_batches_at_the_address_of_the_queue(query: Query, sqs: Any) -> None:
    url = new_queue(sqs)
    path = f"/000000000000/{name_of(url)}"
    entry = "SendMessageBatchRequestEntry__{}__{}"
    fields = {entry.format(n, "Id"): f"id{n}" for n in range(1, 4)}
    fields |= {entry.format(n, "MessageBody"): f"body {n}" for n in range(1, 3)}
    fields[entry.format(3, "MessageBody")] = "bad \x0b"
    sent = query.call("SendMessageBatch", path, **fields)
    done = "SendMessageBatchResult/SendMessageBatchResultEntry"
    assert texts(sent, f"{done}/Id") == ["id1", "id2"]
    failed = "SendMessageBatchResult/BatchResultErrorEntry"
    assert texts(sent, f"{failed}/Code") == ["InvalidMessageContents"]
    assert texts(sent, f"{failed}/SenderFault") == ["true"]
    received = query.call("ReceiveMessage", path, MaxNumberOfMessages="10", WaitTimeSeconds="2")
    handles = texts(received, "ReceiveMessageResult/Message/ReceiptHandle")
    assert len(handles) == 2
    fields = {}
    for n, handle in enumerate(handles, 1):
        fields[f"DeleteMessageBatchRequestEntry__{n}__Id"] = f"d{n}"
        fields[f"DeleteMessageBatchRequestEntry__{n}__ReceiptHandle"] = handle
    deleted = query.call("DeleteMessageBatch", path, **fields)
    done = "DeleteMessageBatchResult/DeleteMessageBatchResultEntry"
    assert texts(deleted, f"{done}/Id") == ["d1", "d2"]


def test_errors(query: Query, sqs: Any, server: Server) -> None:
    url = new_queue(sqs)
    assert query.error("GetQueueUrl", QueueName="queue-that-is-not-there") == (
        400,
        "AWS.SimpleQueueService.NonExistentQueue",
        "The specified queue does not exist for this wsdl version.",
    )
    assert query.error("Fly")[:2] == (400, "InvalidAction")
    assert query.error("SendMessage", QueueUrl=url)[1] == "MissingParameter"
    bad = query.error("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages="many")
    assert bad[:2] == (400, "MalformedInput")
    eleven = query.error("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages="11")
    assert eleven[1] == "InvalidParameterValue"
    handle = query.error("DeleteMessage", QueueUrl=url, ReceiptHandle="<x>")
    assert handle[:2] == (404, "ReceiptHandleIsInvalid")
    # What a web page can make a browser send is not taken.
    page = httpx.post(
        server.http_url,
        data={"Action": "DeleteQueue", "QueueUrl": url},
        headers={"origin": "https://elsewhere.example"},
    )
    assert page.status_code == 403
    assert sqs.get_queue_url(QueueName=name_of(url))["QueueUrl"] == url


def test_bad_json(server: Server) -> None:
    def post(body: bytes, action: str = "CreateQueue") -> httpx.Response:
        return httpx.post(
            server.http_url,
            content=body,
            headers={
                "x-amz-target": f"AmazonSQS.{action}",
                "content-type": "application/x-amz-json-1.0",
            },
        )

    for body in (b"{", b'{"QueueName": 5}', b"[]", b'{"QueueName": "\xff"}', b"[" * 5_000):
        answer = post(body)
        assert answer.status_code == 400, body
        kind = answer.json()["__type"]
        assert kind == "com.amazon.coral.service#SerializationException", body
    unknown = post(b"{}", "Fly")
    assert unknown.json()["__type"] == "com.amazon.coral.service#UnknownOperationException"
    assert unknown.headers["x-amzn-query-error"] == "InvalidAction;Sender"
    assert post(b"").json()["__type"].endswith("#MissingRequiredParameterException")
    large = post(b" " * (9 * 1024 * 1024))
    assert large.status_code == 413


def test_an_answer_with_nothing_in_it_still_has_its_element(query: Query, sqs: Any) -> None:
    url = new_queue(sqs)
    for action in ("ReceiveMessage", "ListQueueTags"):
        root = query.call(action, QueueUrl=url)
        assert root.find(f"{NAMESPACE}{action}Result") is not None
    root = query.call("ListQueues", QueueNamePrefix="none-of-this-prefix")
    assert root.find(f"{NAMESPACE}ListQueuesResult") is not None
    for action in ("PurgeQueue", "DeleteQueue"):
        root = query.call(action, QueueUrl=url)
        assert root.find(f"{NAMESPACE}{action}Result") is None


def test_empty_lists_are_written_without_a_value(query: Query, sqs: Any) -> None:
    """As botocore writes `AttributeNames=[]`."""
    url = new_queue(sqs)
    sqs.send_message(QueueUrl=url, MessageBody="m")
    found = query.call("ReceiveMessage", QueueUrl=url, AttributeNames="", MessageAttributeNames="")
    assert texts(found, "ReceiveMessageResult/Message/Body") == ["m"]
    _, code, _ = query.error("DeleteMessageBatch", QueueUrl=url, Entries="")
    assert code == "AWS.SimpleQueueService.EmptyBatchRequest"
