"""DescribeAcls, CreateAcls and DeleteAcls over the wire, in all their versions."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import Rule, RuleFilter
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.rules import ActingAs
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
ANY, LITERAL, PREFIXED, ALL, READ, DENY, ALLOW = 1, 3, 4, 2, 3, 2, 3
TOPIC, GROUP, CLUSTER = 2, 3, 4


@pytest.fixture
def settings() -> dict[str, str]:
    return {"super.users": "User:root"}


@pytest.fixture
def user(broker: Node) -> ActingAs:
    return ActingAs(broker.security.rules, "root")


@pytest.fixture
async def secured(broker: Node, user: ActingAs) -> AsyncIterator[WireClient]:
    door = KafkaDoor(BrokerService(broker, user), broker.config)
    await broker.announce(*await door.start(), 0)
    connected = await WireClient.connect(*door.address)
    yield connected
    connected.close()
    await door.stop()


def creation(**fields: Any) -> dict[str, Any]:
    return {
        "resource_type": TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
        **fields,
    }


def wanted(**fields: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
        **fields,
    }


def codes(results: Any) -> list[str]:
    return [each.error_code.name for each in results]


@VERSIONS
async def test_made_described_and_deleted(secured: WireClient, version: int) -> None:
    rules = [
        creation(),
        creation(permission_type=DENY, operation=ALL, host="10.0.0.1"),
        creation(resource_pattern_type=PREFIXED, resource_name="ord"),
        creation(resource_type=GROUP, resource_name="*"),
        creation(resource_type=CLUSTER, resource_name="kafka-cluster"),
    ]
    made = await secured.call("create_acls", version, creations=[*rules, rules[0]])
    assert codes(made.results) == ["none"] * 6
    found = await secured.call("describe_acls", version, **wanted())
    described = [
        {
            "resource_type": place.resource_type,
            "resource_name": place.resource_name,
            "resource_pattern_type": place.pattern_type,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission_type,
        }
        for place in found.resources
        for acl in place.acls
    ]
    assert sorted(described, key=str) == sorted(rules, key=str)
    assert len(found.resources) == 4

    filters = [
        wanted(resource_type_filter=TOPIC, resource_name_filter="orders", pattern_type_filter=2),
        wanted(operation=ALL),
        wanted(resource_name_filter="nothing"),
    ]
    deleted = await secured.call("delete_acls", version, filters=filters)
    assert codes(deleted.filter_results) == ["none"] * 3
    assert [len(each.matching_acls) for each in deleted.filter_results] == [3, 1, 0]
    left = await secured.call("describe_acls", version, **wanted())
    assert {place.resource_type for place in left.resources} == {GROUP, CLUSTER}


async def test_each_rule_is_looked_at_by_itself(secured: WireClient, broker: Node) -> None:
    bad = [
        creation(resource_name=""),
        creation(resource_type=CLUSTER, resource_name="other"),
        creation(resource_type=ANY),
        creation(resource_type=0),
        creation(resource_type=99),
        creation(resource_pattern_type=ANY),
        creation(resource_pattern_type=2),
        creation(operation=ANY),
        creation(operation=0),
        creation(permission_type=ANY),
        creation(principal="alice"),
        creation(host="example.org"),
    ]
    made = await secured.call("create_acls", creations=[*bad, creation()])
    assert codes(made.results) == ["invalid_request"] * len(bad) + ["none"]
    assert all(each.error_message for each in made.results[: len(bad)])
    assert len(broker.security.image.rules) == 1

    bad_filters = [wanted(resource_type_filter=0), wanted(operation=99), wanted(permission_type=0)]
    deleted = await secured.call("delete_acls", filters=[*bad_filters, wanted()])
    assert codes(deleted.filter_results) == ["invalid_request"] * 3 + ["none"]
    for each in bad_filters:
        described = await secured.call("describe_acls", **each)
        assert described.error_code.name == "invalid_request"


async def test_who_may_not(secured: WireClient, user: ActingAs) -> None:
    user.principal = user.principal._replace(name="alice")
    made = await secured.call("create_acls", creations=[creation(), creation()])
    assert codes(made.results) == ["cluster_authorization_failed"] * 2
    deleted = await secured.call("delete_acls", filters=[wanted()])
    assert codes(deleted.filter_results) == ["cluster_authorization_failed"]
    found = await secured.call("describe_acls", **wanted())
    assert found.error_code.name == "cluster_authorization_failed"


async def test_without_security_as_kafka_without_an_authorizer(client: WireClient) -> None:
    made = await client.call("create_acls", creations=[creation()])
    assert codes(made.results) == ["security_disabled"]
    deleted = await client.call("delete_acls", filters=[wanted()])
    assert codes(deleted.filter_results) == ["security_disabled"]
    found = await client.call("describe_acls", **wanted())
    assert found.error_code.name == "security_disabled"


async def test_rules_of_subjects_are_kept_from_kafkas_tools(
    secured: WireClient, broker: Node
) -> None:
    rules = BrokerService(broker).rules
    rule = Rule(resource=Resource.SUBJECT, name="s", principal="User:alice", verb=Verb.READ)
    await rules.add(ANYONE, [rule])
    found = await secured.call("describe_acls", **wanted())
    assert found.resources == ()
    await secured.call("delete_acls", filters=[wanted()])
    assert await rules.rules(ANYONE, [RuleFilter()]) == [rule]
    subject = wanted(resource_type_filter=Resource.SUBJECT.value)
    found = await secured.call("describe_acls", **subject)
    assert [place.resource_name for place in found.resources] == ["s"]


def bits(*verbs: Verb) -> int:
    return sum(1 << verb.value for verb in verbs)


async def test_answers_tell_what_rules_allow(
    secured: WireClient, user: ActingAs, broker: Node
) -> None:
    """Authorized operations (KIP-430)."""
    everybody = BrokerService(broker)
    await everybody.topics.create(ANYONE, NewTopic(name="orders", partitions=1))
    given = [
        creation(),
        creation(operation=Verb.ALTER_CONFIGS.value),
        creation(operation=Verb.WRITE.value),
        creation(operation=Verb.WRITE.value, permission_type=DENY, host="127.0.0.1"),
        creation(resource_type=GROUP, resource_name="g", operation=ALL),
        creation(resource_type=GROUP, resource_name="g", operation=6, permission_type=DENY),
        creation(resource_type=CLUSTER, resource_name="kafka-cluster", operation=7),
    ]
    made = await secured.call("create_acls", creations=given)
    assert codes(made.results) == ["none"] * len(given)
    user.principal = user.principal._replace(name="alice")
    metadata = await secured.call(
        "metadata", topics=[{"name": "orders"}], include_topic_authorized_operations=True
    )
    assert metadata.topics[0].topic_authorized_operations == bits(
        Verb.READ, Verb.DESCRIBE, Verb.ALTER_CONFIGS, Verb.DESCRIBE_CONFIGS
    )
    groups = await secured.call("describe_groups", groups=["g"], include_authorized_operations=True)
    assert groups.groups[0].authorized_operations == bits(
        Verb.READ, Verb.DESCRIBE, Verb.ALTER_CONFIGS, Verb.DESCRIBE_CONFIGS
    )
    cluster = await secured.call("describe_cluster", include_cluster_authorized_operations=True)
    # The right to write to a topic is denied here, so that idempotence is none, either.
    assert cluster.cluster_authorized_operations == bits(Verb.ALTER, Verb.DESCRIBE)
