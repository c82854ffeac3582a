"""SQS with boto3 while security is on: right and wrong keys, presigned URLs, policies."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import boto3
import httpx
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from goqueue.broker.node import Node
from goqueue.model.queues.sqs_queue import SQS_GROUP
from goqueue.model.security.keys import KeyKind
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.allowed_waits import AllowedWaits
from tests.unit.doors.web_security.conftest import MAKER, refused_while_waiting

pytestmark = pytest.mark.anyio

QUEUE = "jobs"


class Sqs:
    """boto3 in a thread."""

    def __init__(self, url: str, key_id: str, secret: str) -> None:
        self.key_id, self.secret = key_id, secret
        self.url = f"{url}/000000000000/{QUEUE}"
        self.client = boto3.client(
            "sqs",
            region_name="eu-west-1",
            endpoint_url=url,
            aws_access_key_id=key_id,
            aws_secret_access_key=secret,
            config=Config(retries={"total_max_attempts": 1}),
        )

    async def __call__(self, operation: str, **fields: Any) -> Any:
        return await asyncio.to_thread(getattr(self.client, operation), **fields)

    async def refused(self, operation: str, **fields: Any) -> tuple[str, int]:
        with pytest.raises(ClientError) as error:
            await self(operation, **fields)
        answer = error.value.response
        return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


SqsOf = Callable[[str], Any]


@pytest.fixture
def sqs_of(url: str, service: BrokerService) -> SqsOf:
    async def made(user: str) -> Sqs:
        key = await service.keys.create(MAKER, user, KeyKind.SQS)
        assert len(key.key.id) == 20
        assert key.key.id.isalnum()
        assert key.key.id.isupper()
        return Sqs(url, key.key.id, key.secret)

    return made


async def test_a_right_key_lets_in_and_a_wrong_one_does_not(sqs_of: SqsOf, url: str) -> None:
    root = await sqs_of("root")
    await root("create_queue", QueueName=QUEUE)
    await root("send_message", QueueUrl=root.url, MessageBody="é")
    got = await root("receive_message", QueueUrl=root.url)
    assert [each["Body"] for each in got["Messages"]] == ["é"]
    wrong = Sqs(url, root.key_id, root.secret[:-1] + "x")
    assert await wrong.refused("list_queues") == ("SignatureDoesNotMatch", 403)
    unknown = Sqs(url, "GQAAAAAAAAAAAAAAAAAA", root.secret)
    assert await unknown.refused("list_queues") == ("InvalidClientTokenId", 403)


async def test_rights_are_those_of_the_user(sqs_of: SqsOf) -> None:
    root, alice = await sqs_of("root"), await sqs_of("alice")
    await root("create_queue", QueueName=QUEUE)
    denied = await alice.refused("send_message", QueueUrl=root.url, MessageBody="a")
    assert denied == ("AccessDenied", 403)
    assert "QueueUrls" not in await alice("list_queues")


async def test_a_key_that_was_removed_lets_nobody_in(sqs_of: SqsOf, service: BrokerService) -> None:
    alice = await sqs_of("alice")
    await alice("list_queues")
    await service.keys.delete(MAKER, alice.key_id)
    assert (await alice.refused("list_queues"))[0] == "InvalidClientTokenId"


async def test_a_long_poll_is_refused_when_its_key_is_removed(
    sqs_of: SqsOf, service: BrokerService, waits: AllowedWaits
) -> None:
    root = await sqs_of("root")
    await root("create_queue", QueueName=QUEUE)
    code, status = await refused_while_waiting(
        root.refused("receive_message", QueueUrl=root.url, WaitTimeSeconds=20),
        lambda: bool(waits._waiting),
        lambda: service.keys.delete(MAKER, root.key_id),
    )
    assert (code, status) == ("InvalidClientTokenId", 403)


# --- presigned ----------------------------------------------------------------------------


def presigned(sqs: Sqs, method: str, fields: dict[str, str], seconds: int = 60) -> str:
    """Of the query protocol, as in the guide of SQS."""
    request = AWSRequest(method=method, url=sqs.url, params=fields)
    credentials = Credentials(sqs.key_id, sqs.secret)
    SigV4QueryAuth(credentials, "sqs", "eu-west-1", seconds).add_auth(request)
    return str(request.url)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_presigned_url_is_a_request(
    sqs_of: SqsOf, nobody: httpx.AsyncClient, method: str
) -> None:
    root = await sqs_of("root")
    await root("create_queue", QueueName=QUEUE)
    text = "a+b &c=é"
    url = presigned(root, method, {"Action": "SendMessage", "MessageBody": text})
    answer = await nobody.request(method, url)
    assert answer.status_code == 200, answer.text
    got = await root("receive_message", QueueUrl=root.url)
    assert [each["Body"] for each in got["Messages"]] == [text]
    for wrong in (url.replace("SendMessage", "PurgeQueue"), url[:-1] + "g", url + "&a=b"):
        refused = await nobody.request(method, wrong)
        assert refused.status_code == 403, wrong
        assert "SignatureDoesNotMatch" in refused.text


async def test_what_boto3_presigns(sqs_of: SqsOf, nobody: httpx.AsyncClient) -> None:
    """Of the JSON protocol: fields in the query, and headers that are signed."""
    root = await sqs_of("root")
    await root("create_queue", QueueName=QUEUE)
    await root("send_message", QueueUrl=root.url, MessageBody="a")
    url = root.client.generate_presigned_url(
        "receive_message",
        Params={"QueueUrl": root.url, "MaxNumberOfMessages": 1, "AttributeNames": ["All"]},
    )
    headers = {
        "x-amz-target": "AmazonSQS.ReceiveMessage",
        "content-type": "application/x-amz-json-1.0",
        "x-amzn-query-mode": "true",
    }
    answer = await nobody.post(url, headers=headers)
    assert answer.status_code == 200, answer.text
    (message,) = answer.json()["Messages"]
    assert message["Body"] == "a"
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    refused = await nobody.post(url, headers={**headers, "x-amz-target": "AmazonSQS.PurgeQueue"})
    assert refused.status_code == 403


# --- policies -----------------------------------------------------------------------------


def policy(action: str | list[str], principal: Any = None, **more: Any) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": principal or {"AWS": "arn:aws:iam::000000000000:user/alice"},
        "Action": action,
        "Resource": f"arn:aws:sqs:eu-west-1:000000000000:{QUEUE}",
        **more,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


async def test_a_policy_becomes_rules_and_ends_them(sqs_of: SqsOf, broker: Node) -> None:
    root, alice = await sqs_of("root"), await sqs_of("alice")
    attributes = {"Policy": policy("sqs:SendMessage")}
    await root("create_queue", QueueName=QUEUE, Attributes=attributes)
    await alice("send_message", QueueUrl=root.url, MessageBody="a")
    denied = await alice.refused("receive_message", QueueUrl=root.url)
    assert denied == ("AccessDenied", 403)
    changed = {"Policy": policy(["SQS:ReceiveMessage", "SQS:DeleteMessage"])}
    await root("set_queue_attributes", QueueUrl=root.url, Attributes=changed)
    assert (await alice.refused("send_message", QueueUrl=root.url, MessageBody="a"))[1] == 403
    got = (await alice("receive_message", QueueUrl=root.url))["Messages"]
    await alice("delete_message", QueueUrl=root.url, ReceiptHandle=got[0]["ReceiptHandle"])
    await root("set_queue_attributes", QueueUrl=root.url, Attributes={"Policy": ""})
    assert await alice.refused("receive_message", QueueUrl=root.url) == ("AccessDenied", 403)
    (left,) = broker.security.image.rules.values()
    assert left.name == SQS_GROUP


async def test_permissions_are_added_and_removed(sqs_of: SqsOf) -> None:
    root, alice = await sqs_of("root"), await sqs_of("alice")
    await root("create_queue", QueueName=QUEUE)
    added = {"QueueUrl": root.url, "AWSAccountIds": ["alice"], "Actions": ["SendMessage"]}
    await root("add_permission", Label="send", **added)
    await alice("send_message", QueueUrl=root.url, MessageBody="a")
    # Whoever may alter the queue may not alter rules.
    assert (await alice.refused("add_permission", Label="x", **added))[0] == "AccessDenied"
    await root("remove_permission", QueueUrl=root.url, Label="send")
    denied = await alice.refused("send_message", QueueUrl=root.url, MessageBody="a")
    assert denied == ("AccessDenied", 403)


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ("Condition", policy("sqs:SendMessage", Condition={"Bool": {"aws:SecureTransport": "1"}})),
        ("NotAction", policy("sqs:SendMessage", NotAction="sqs:DeleteQueue")),
        ("Action", policy("sqs:PurgeQueue")),
        ("Action", policy("s3:GetObject")),
        ("Principal", policy("sqs:SendMessage", {"AWS": "123456789012"})),
        ("Principal", policy("sqs:SendMessage", {"AWS": "arn:aws:iam::123456789012:root"})),
        ("Principal", policy("sqs:SendMessage", {"Service": "sns.amazonaws.com"})),
        ("Resource", policy("sqs:SendMessage", Resource="arn:aws:sqs:eu-west-1:0:other")),
        ("Effect", policy("sqs:SendMessage", Effect="Maybe")),
        ("Effect", policy("sqs:SendMessage", Effect=["Allow"])),
        ("Principal", policy("sqs:SendMessage", {"AWS": "half of a character: \ud800"})),
        ("Principal", policy("sqs:SendMessage", {"AWS": "a" * 2_000})),
        ("Statement", '{"Statement": ["x"]}'),
    ],
)
async def test_what_cannot_be_a_rule_is_refused_by_name(
    sqs_of: SqsOf, broker: Node, element: str, text: str
) -> None:
    root = await sqs_of("root")
    await root("create_queue", QueueName=QUEUE)
    with pytest.raises(ClientError) as refused:
        await root("set_queue_attributes", QueueUrl=root.url, Attributes={"Policy": text})
    error = refused.value.response["Error"]
    assert error["Code"] == "InvalidAttributeValue"
    assert element in error["Message"]
    assert not broker.security.image.rules
    shown = await root("get_queue_attributes", QueueUrl=root.url, AttributeNames=["Policy"])
    assert "Attributes" not in shown


async def test_everything_for_everyone(sqs_of: SqsOf) -> None:
    root, alice = await sqs_of("root"), await sqs_of("alice")
    await root("create_queue", QueueName=QUEUE, Attributes={"Policy": policy("SQS:*", "*")})
    await alice("send_message", QueueUrl=root.url, MessageBody="a")
    assert (await alice("receive_message", QueueUrl=root.url))["Messages"]
