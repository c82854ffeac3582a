"""What the generated test of access cannot see: rights that change, and what is told in part."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.records import NewRecord
from goqueue.model.rights import CLUSTER_NAME, VERBS, Resource, Verb
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.rules import Granted, cluster, group, topic
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

NOT_ASKED_FOR = -(2**31)


@pytest.fixture
def rules() -> Granted:
    return Granted()


@pytest.fixture
async def topic_id(broker: Node) -> UUID:
    created = await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))
    await publish(broker, "a", [NewRecord(value=b"canary")])
    return created.topic.id


@pytest.fixture
async def door(broker: Node, rules: Granted) -> AsyncIterator[KafkaDoor]:
    opened = KafkaDoor(BrokerService(broker, rules), broker.config)
    host, port = await opened.start()
    await broker.announce(host, port, 0)
    yield opened
    await opened.stop()


def _bits(*verbs: Verb) -> int:
    return sum(1 << verb.value for verb in verbs)


async def fetch(client: WireClient, version: int, *topics: Any, **more: Any) -> Any:
    limits = {"min_bytes": 0, "max_wait": 0, "max_bytes": 1_000_000}
    return await client.call("fetch", version, topics=topics, **limits, **more)


@pytest.mark.parametrize("version", [12, 13, 18])
async def test_a_session_is_asked_for_its_rights_with_every_fetch(
    client: WireClient, rules: Granted, topic_id: UUID, version: int
) -> None:
    by_id = version >= 13
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000}
    wanted = {**({"topic_id": topic_id} if by_id else {"topic": "a"}), "partitions": [part]}
    reading = topic("a", Verb.READ)
    rules.grants.add(reading)
    first = await fetch(client, version, wanted, session_id=0, session_epoch=0)
    assert b"canary" in first.responses[0].partitions[0].records

    rules.grants.remove(reading)
    session = {"session_id": first.session_id}
    second = await fetch(client, version, **session, session_epoch=1)
    [refused] = second.responses[0].partitions
    assert refused.error_code is ErrorCode.topic_authorization_failed
    assert refused.records == b""

    rules.grants.add(reading)
    third = await fetch(client, version, **session, session_epoch=2)
    assert b"canary" in third.responses[0].partitions[0].records


async def test_settings_of_a_new_topic_are_told_to_those_who_may_see_them(
    client: WireClient, rules: Granted
) -> None:
    rules.grants |= {topic("b", Verb.CREATE), topic("c", Verb.CREATE)}
    rules.grants.add(topic("c", Verb.DESCRIBE_CONFIGS))
    wanted = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in "bc"]
    untold, told = (await client.call("create_topics", topics=wanted)).topics
    assert untold.error_code is told.error_code is ErrorCode.none
    # A plain number in the schema.
    assert untold.topic_config_error_code == ErrorCode.topic_authorization_failed.value
    assert (untold.num_partitions, untold.configs) == (-1, None)
    assert told.num_partitions == 2
    assert told.configs


@pytest.mark.usefixtures("topic_id")
async def test_a_topic_is_made_on_first_use_by_those_who_may_create_it(
    client: WireClient, broker: Node, rules: Granted
) -> None:
    rules.grants |= {topic(name, Verb.DESCRIBE) for name in "abc"}
    rules.grants.add(topic("c", Verb.CREATE))
    wanted = [{"name": name} for name in "abc"]
    answer = await client.call("metadata", topics=wanted, allow_auto_topic_creation=True)
    codes = {each.name: each.error_code for each in answer.topics}
    assert codes == {
        "a": ErrorCode.none,
        "b": ErrorCode.topic_authorization_failed,
        "c": ErrorCode.none,
    }
    assert set(broker.image.topics) == {"a", "c"}


@pytest.mark.usefixtures("topic_id")
async def test_allowed_operations_are_those_of_the_caller(
    client: WireClient, rules: Granted
) -> None:
    rules.grants |= {topic("a", Verb.READ), topic("a", Verb.DESCRIBE), cluster(Verb.ALTER)}
    rules.grants |= {group("g", Verb.READ), group("g", Verb.DESCRIBE)}

    async def of_cluster() -> int:
        asked = {"include_cluster_authorized_operations": True}
        bits: int = (await client.call("describe_cluster", **asked)).cluster_authorized_operations
        return bits

    assert await of_cluster() == 0
    rules.grants.add(cluster(Verb.DESCRIBE))
    assert await of_cluster() == _bits(Verb.ALTER, Verb.DESCRIBE)
    for asked, bits in ((True, _bits(Verb.READ, Verb.DESCRIBE)), (False, NOT_ASKED_FOR)):
        answer = await client.call(
            "metadata", topics=[{"name": "a"}], include_topic_authorized_operations=asked
        )
        assert answer.topics[0].topic_authorized_operations == bits
        groups = await client.call(
            "describe_groups", groups=["g"], include_authorized_operations=asked
        )
        assert groups.groups[0].authorized_operations == bits


async def test_while_security_is_off_everyone_may_do_everything(broker: Node) -> None:
    administration = BrokerService(broker).administration
    for resource, name in ((Resource.TOPIC, "a"), (Resource.CLUSTER, CLUSTER_NAME)):
        assert tuple(administration.allowed(ANYONE, resource, name)) == VERBS[resource]
