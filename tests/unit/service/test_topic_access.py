"""Topics, settings and the cluster with rules switched on."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from goqueue.broker.node import Node
from goqueue.model.configs import ConfigChange, ConfigResource, ConfigResourceKind
from goqueue.model.coordinators import CoordinatorKind
from goqueue.model.errors import (
    AccessDenied,
    ClusterAccessDenied,
    GroupAccessDenied,
    TopicAccessDenied,
)
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.rules import Grant, Granted, cluster, group, topic
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

TOPIC = ConfigResource(ConfigResourceKind.TOPIC, "mine")
GROUP = ConfigResource(ConfigResourceKind.GROUP, "readers")
BROKERS = ConfigResource(ConfigResourceKind.BROKER, "")
OF_TOPIC = [ConfigChange(name="retention.ms", value="77")]
OF_GROUP = [ConfigChange(name="share.delivery.count.limit", value="7")]
OF_BROKERS = [ConfigChange(name="topic.retention.ms", value="77")]


def with_rights(node: Node, *grants: Grant) -> BrokerService:
    return BrokerService(node, Granted(*grants))


async def fill(node: Node) -> None:
    for name in ("mine", "others"):
        await BrokerService(node).topics.create(ANYONE, NewTopic(name=name, partitions=1))


async def view(service: BrokerService) -> object:
    return service.topics.view(ANYONE, "mine")


async def describe(service: BrokerService) -> object:
    return await service.topics.describe(ANYONE, "mine")


def describing(resource: ConfigResource) -> "Ask":
    async def ask(service: BrokerService) -> object:
        return service.administration.describe_config(ANYONE, resource)

    return ask


def altering(resource: ConfigResource, changes: list[ConfigChange]) -> "Ask":
    return lambda service: service.administration.alter_config(ANYONE, resource, changes)


def replacing(resource: ConfigResource, changes: list[ConfigChange]) -> "Ask":
    texts = {change.name: change.value or "" for change in changes}
    return lambda service: service.administration.replace_config(ANYONE, resource, texts)


async def log_dirs(service: BrokerService) -> object:
    return await service.administration.log_dirs(ANYONE)


async def config_resources(service: BrokerService) -> object:
    return service.administration.config_resources(ANYONE)


async def group_coordinator(service: BrokerService) -> object:
    return await service.administration.coordinator(ANYONE, CoordinatorKind.GROUP, "readers")


# Group, topic id and partition.
SHARE_KEY = "readers:AAAAAAAAAAAAAAAAAAAAAA:0"


async def share_coordinator(service: BrokerService) -> object:
    return await service.administration.coordinator(ANYONE, CoordinatorKind.SHARE, SHARE_KEY)


Ask = Callable[[BrokerService], Awaitable[Any]]

OPERATIONS: dict[str, tuple[Ask, tuple[Grant, ...], type[AccessDenied]]] = {
    "view": (view, (topic("mine", Verb.DESCRIBE),), TopicAccessDenied),
    "describe": (describe, (topic("mine", Verb.DESCRIBE),), TopicAccessDenied),
    "ensure": (
        lambda service: service.topics.ensure(ANYONE, "new"),
        (topic("new", Verb.DESCRIBE), topic("new", Verb.CREATE)),
        TopicAccessDenied,
    ),
    "create": (
        lambda service: service.topics.create(ANYONE, NewTopic(name="new")),
        (topic("new", Verb.CREATE),),
        TopicAccessDenied,
    ),
    "delete": (
        lambda service: service.topics.delete(ANYONE, "mine"),
        (topic("mine", Verb.DELETE),),
        TopicAccessDenied,
    ),
    "create_partitions": (
        lambda service: service.topics.create_partitions(ANYONE, "mine", 3),
        (topic("mine", Verb.ALTER),),
        TopicAccessDenied,
    ),
    "split": (
        lambda service: service.topics.split(ANYONE, "mine", 2),
        (topic("mine", Verb.ALTER), topic("mine", Verb.DESCRIBE)),
        TopicAccessDenied,
    ),
    "alter": (
        lambda service: service.topics.alter(ANYONE, "mine", partitions=3, changes=OF_TOPIC),
        (
            topic("mine", Verb.DESCRIBE),
            topic("mine", Verb.ALTER),
            topic("mine", Verb.ALTER_CONFIGS),
        ),
        TopicAccessDenied,
    ),
    "describe topic config": (
        describing(TOPIC),
        (topic("mine", Verb.DESCRIBE_CONFIGS),),
        TopicAccessDenied,
    ),
    "describe group config": (
        describing(GROUP),
        (group("readers", Verb.DESCRIBE_CONFIGS),),
        GroupAccessDenied,
    ),
    "describe broker config": (
        describing(BROKERS),
        (cluster(Verb.DESCRIBE_CONFIGS),),
        ClusterAccessDenied,
    ),
    "alter topic config": (
        altering(TOPIC, OF_TOPIC),
        (topic("mine", Verb.ALTER_CONFIGS),),
        TopicAccessDenied,
    ),
    "alter group config": (
        altering(GROUP, OF_GROUP),
        (group("readers", Verb.ALTER_CONFIGS),),
        GroupAccessDenied,
    ),
    "alter broker config": (
        altering(BROKERS, OF_BROKERS),
        (cluster(Verb.ALTER_CONFIGS),),
        ClusterAccessDenied,
    ),
    "replace topic config": (
        replacing(TOPIC, OF_TOPIC),
        (topic("mine", Verb.ALTER_CONFIGS),),
        TopicAccessDenied,
    ),
    "replace group config": (
        replacing(GROUP, OF_GROUP),
        (group("readers", Verb.ALTER_CONFIGS),),
        GroupAccessDenied,
    ),
    "replace broker config": (
        replacing(BROKERS, OF_BROKERS),
        (cluster(Verb.ALTER_CONFIGS),),
        ClusterAccessDenied,
    ),
    "log dirs": (log_dirs, (cluster(Verb.DESCRIBE),), ClusterAccessDenied),
    "config resources": (
        config_resources,
        (cluster(Verb.DESCRIBE_CONFIGS),),
        ClusterAccessDenied,
    ),
    "group coordinator": (group_coordinator, (group("readers", Verb.DESCRIBE),), GroupAccessDenied),
    "share coordinator": (share_coordinator, (cluster(Verb.CLUSTER_ACTION),), ClusterAccessDenied),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_each_operation_needs_all_of_its_rights(
    open_broker: OpenBroker, operation: str
) -> None:
    ask, needed, denied = OPERATIONS[operation]
    async with open_broker() as node:
        await fill(node)
        before = node.image.revision
        for missing in needed:
            granted = [grant for grant in needed if grant != missing]
            with pytest.raises(denied):
                await ask(with_rights(node, *granted))
        assert node.image.revision == before

        await ask(with_rights(node, *needed))


async def test_whoever_may_make_topics_may_make_any(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        topics = with_rights(node, cluster(Verb.CREATE)).topics
        created = await topics.create(ANYONE, NewTopic(name="new", partitions=1))
        assert created.topic == node.topic("new")
        assert created.config is None


async def test_lists_leave_out_what_others_have(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        await fill(node)
        topics = with_rights(node, topic("mine", Verb.DESCRIBE)).topics
        assert [each.name for each in topics.views(ANYONE)] == ["mine"]
        assert [each.name for each, _ in (await topics.sizes(ANYONE)).topics] == ["mine"]


async def test_settings_are_told_to_those_who_may_see_them(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        await fill(node)
        seeing = (topic("mine", Verb.DESCRIBE), topic("mine", Verb.DESCRIBE_CONFIGS))
        told = await with_rights(node, *seeing).topics.describe(ANYONE, "mine")
        untold = await with_rights(node, seeing[0]).topics.describe(ANYONE, "mine")
        assert told.config
        assert untold.config is None


async def test_a_refusal_by_id_does_not_tell_the_name(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        await fill(node)
        topic_id = node.topic("mine").id
        reading = with_rights(node, topic("mine", Verb.READ)).topics
        assert reading.name_of(ANYONE, topic_id, Verb.READ) == "mine"
        with pytest.raises(TopicAccessDenied, match=str(topic_id)) as refused:
            reading.name_of(ANYONE, topic_id, Verb.WRITE)
        assert "mine" not in refused.value.message


async def test_what_a_caller_may_do_is_told(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        granted = (topic("mine", Verb.READ), topic("mine", Verb.DESCRIBE), cluster(Verb.CREATE))
        administration = with_rights(node, *granted).administration
        allowed = administration.allowed
        assert allowed(ANYONE, Resource.TOPIC, "mine") == [Verb.READ, Verb.DESCRIBE]
        assert allowed(ANYONE, Resource.GROUP, "readers") == []
        assert allowed(ANYONE, Resource.CLUSTER, CLUSTER_NAME) == [Verb.CREATE]
