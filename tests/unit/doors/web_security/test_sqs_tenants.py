"""SQS by users of tenants: names of their own, also in policies, tokens and what messages carry."""

import json

import pytest

from goqueue.broker.node import Node
from goqueue.service.broker_service import BrokerService
from tests.unit.doors.web_security.conftest import MAKER
from tests.unit.doors.web_security.test_sqs import QUEUE, Sqs, SqsOf, policy, sqs_of

__all__ = ["sqs_of"]

pytestmark = pytest.mark.anyio


@pytest.fixture
async def boss(service: BrokerService, sqs_of: SqsOf) -> Sqs:
    """The administrator of acme. There is a tenant zeta with the same queue."""
    for tenant in ("acme", "zeta"):
        await service.tenants.create(MAKER, tenant, {})
        await service.users.create(MAKER, f"{tenant}-boss", "x", tenant=tenant, is_admin=True)
        await service.users.create(MAKER, f"{tenant}-user", "x", tenant=tenant)
        made: Sqs = await sqs_of(f"{tenant}-boss")
        await made("create_queue", QueueName=QUEUE)
    ours: Sqs = await sqs_of("acme-boss")
    return ours


async def test_a_policy_of_a_tenant_becomes_rules_of_the_tenant(
    boss: Sqs, sqs_of: SqsOf, broker: Node
) -> None:
    url = (await boss("get_queue_url", QueueName=QUEUE))["QueueUrl"]
    asked = {"QueueUrl": url, "AttributeNames": ["Policy", "QueueArn"]}
    arn = (await boss("get_queue_attributes", **asked))["Attributes"]["QueueArn"]
    text = policy("sqs:SendMessage", "*", Resource=arn)
    await boss("set_queue_attributes", QueueUrl=url, Attributes={"Policy": text})
    shown = (await boss("get_queue_attributes", **asked))["Attributes"]["Policy"]
    assert json.loads(shown) == json.loads(text)
    (rule,) = broker.security.image.rules.values()
    assert (rule.tenant, rule.name) == ("acme", QUEUE)
    user, other = await sqs_of("acme-user"), await sqs_of("zeta-user")
    await user("send_message", QueueUrl=user.url, MessageBody="a")
    denied = await other.refused("send_message", QueueUrl=url, MessageBody="a")
    assert denied == ("AccessDenied", 403)
    assert (await user.refused("set_queue_attributes", QueueUrl=url, Attributes={"Policy": ""}))[
        1
    ] == 403
    await boss("set_queue_attributes", QueueUrl=url, Attributes={"Policy": ""})
    assert not broker.security.image.rules
    added = {"AWSAccountIds": ["acme-user"], "Actions": ["SendMessage"]}
    await boss("add_permission", QueueUrl=url, Label="send", **added)
    await user("send_message", QueueUrl=user.url, MessageBody="a")
    assert "acme@" not in (await boss("get_queue_attributes", **asked))["Attributes"]["Policy"]
    await boss("remove_permission", QueueUrl=url, Label="send")
    assert not broker.security.image.rules


async def test_what_messages_carry_is_not_changed(boss: Sqs) -> None:
    """Also where it looks like an address of the broker."""
    made = await boss("create_queue", QueueName="a.fifo", Attributes={"FifoQueue": "true"})
    group, copy = "c:000000000000:x/acme@42", "d/000000000000/:acme@1"
    await boss(
        "send_message",
        QueueUrl=made["QueueUrl"],
        MessageBody=group,
        MessageGroupId=group,
        MessageDeduplicationId=copy,
    )
    asked = {"QueueUrl": made["QueueUrl"], "AttributeNames": ["All"]}
    (got,) = (await boss("receive_message", **asked))["Messages"]
    found = got["Attributes"]
    assert (got["Body"], found["MessageGroupId"], found["MessageDeduplicationId"]) == (
        group,
        group,
        copy,
    )


async def test_pages_go_on_by_the_names_of_the_tenant(boss: Sqs) -> None:
    for name in ("a", "b"):
        await boss("create_queue", QueueName=name)
    urls: list[str] = []
    token: dict[str, str] = {}
    while not urls or token:
        page = await boss("list_queues", MaxResults=1, **token)
        urls += page["QueueUrls"]
        token = {"NextToken": page["NextToken"]} if "NextToken" in page else {}
        assert b"acme" not in bytes.fromhex(token.get("NextToken", ""))
    assert [url.rpartition("/")[2] for url in urls] == ["a", "b", QUEUE]
    assert (await boss.refused("list_queues", MaxResults=1, NextToken="x"))[1] == 400
