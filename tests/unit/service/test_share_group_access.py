"""Share groups with rules switched on: refused as a whole or by partition, as Kafka does."""

from uuid import UUID

import pytest

from goqueue.broker.node import Node
from goqueue.model.errors import (
    GroupAccessDenied,
    TopicAccessDenied,
    UnknownTopicId,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.share_messages import ShareGroupHeartbeat
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction, Acknowledgement
from goqueue.model.queues.share import NewShareOffset, ShareFetch, ShareMember, SharePart
from goqueue.model.records import NewRecord
from goqueue.model.rights import Verb
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.groups.share_groups import ShareGroupService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.queues import open_queues, share_fetch
from tests.rules import Grant, Granted, group, topic
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

MEMBER = ShareMember("g", "m")
BEAT = ShareGroupHeartbeat(
    group_id="g", member_id="m", member_epoch=0, subscribed_topics=("seen", "hidden")
)
ACCEPT = [Acknowledgement(offsets=OffsetRange(0, 1), action=AckAction.ACCEPT)]


def with_rights(node: Node, *grants: Grant) -> ShareGroupService:
    return BrokerService(node, Granted(*grants)).share_groups


async def fill(node: Node) -> tuple[SharePart, SharePart]:
    """Two topics with a message each, and a group that begins with them."""
    for name in ("seen", "hidden"):
        await BrokerService(node).topics.create(ANYONE, NewTopic(name=name, partitions=1))
        await publish(node, name, [NewRecord(value=name.encode())])
        await open_queues(node, "g", name)
    return SharePart(node.topic("seen").id, 0), SharePart(node.topic("hidden").id, 0)


def fetch_of(*parts: SharePart) -> ShareFetch:
    return share_fetch(*parts, max_wait_ms=60_000)


async def test_without_the_group_nothing_is_told(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        seen, hidden = await fill(node)
        topics = [topic(name, verb) for name in ("seen", "hidden") for verb in Verb]
        shares = with_rights(node, *topics)
        asked = [
            shares.heartbeat(ANYONE, BEAT),
            shares.describe(ANYONE, "g"),
            shares.check(ANYONE, "g"),
            shares.fetch(ANYONE, MEMBER, fetch_of(seen, hidden)),
            shares.acknowledge(ANYONE, MEMBER, {seen: ACCEPT}),
            shares.release(ANYONE, MEMBER),
            shares.describe_offsets(ANYONE, "g", None),
            shares.alter_offsets(ANYONE, "g", [("seen", [NewShareOffset(0, 0)])]),
            shares.delete_offsets(ANYONE, "g", ["seen"]),
        ]
        for each in asked:
            with pytest.raises(GroupAccessDenied):
                await each
        with pytest.raises(GroupAccessDenied):
            shares.terms(ANYONE, "g")


async def test_a_topic_that_may_not_be_read_is_refused_by_itself(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        seen, hidden = await fill(node)
        gone = SharePart(UUID(int=7), 0)
        shares = with_rights(node, group("g", Verb.READ), topic("seen", Verb.READ))
        # Without waiting: a refusal is news.
        fetched = await shares.fetch(ANYONE, MEMBER, fetch_of(seen, hidden, gone))
        errors = {answer.part: type(answer.error) for answer in fetched}
        assert errors == {seen: type(None), hidden: TopicAccessDenied, gone: UnknownTopicId}
        assert b"hidden" not in b"".join(bytes(answer.data) for answer in fetched)
        said = await shares.acknowledge(ANYONE, MEMBER, {seen: ACCEPT, hidden: ACCEPT})
        assert said[seen] is QueueError.NONE
        assert isinstance(said[hidden], TopicAccessDenied)
        # Who asks by id is not told the name.
        assert "hidden" not in str(said[hidden])
        assert not [answer for answer in fetched if "hidden" in str(answer.error)]
        assert set(shares.leaders(ANYONE, (seen, hidden, gone))) == {seen}


async def test_subscribing_needs_to_see_every_topic(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        await fill(node)
        rights = [group("g", Verb.READ), topic("seen", Verb.DESCRIBE)]
        with pytest.raises(TopicAccessDenied, match="hidden"):
            await with_rights(node, *rights).heartbeat(ANYONE, BEAT)
        rights.append(topic("hidden", Verb.DESCRIBE))
        joined = await with_rights(node, *rights).heartbeat(ANYONE, BEAT)
        assert joined.error is GroupError.NONE
        # Its description names what it subscribed to, so it is refused as a whole, without names.
        narrow = with_rights(node, group("g", Verb.DESCRIBE), topic("seen", Verb.DESCRIBE))
        with pytest.raises(TopicAccessDenied) as refusal:
            await narrow.describe(ANYONE, "g")
        assert "hidden" not in str(refusal.value)


async def test_offsets_of_topics_that_may_not_be_seen(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        await fill(node)
        everything = BrokerService(node).share_groups
        assert (await everything.alter_offsets(ANYONE, "g", [])).error is GroupError.NONE
        shares = with_rights(
            node,
            *(group("g", verb) for verb in (Verb.READ, Verb.DESCRIBE, Verb.DELETE)),
            *(topic("seen", verb) for verb in (Verb.READ, Verb.DESCRIBE)),
        )
        listed = await shares.describe_offsets(ANYONE, "g", None)
        assert [each.name for each in listed.topics] == ["seen"]
        named = await shares.describe_offsets(ANYONE, "g", [("hidden", [0])])
        assert isinstance(named.topics[0].partitions[0].error, TopicAccessDenied)
        assert named.topics[0].topic_id is None
        new = [NewShareOffset(0, 1)]
        altered = await shares.alter_offsets(ANYONE, "g", [("seen", new), ("hidden", new)])
        assert [type(each.partitions[0].error) for each in altered.topics] == [
            type(None),
            TopicAccessDenied,
        ]
        assert altered.topics[1].topic_id is None
        deleted = await shares.delete_offsets(ANYONE, "g", ["hidden", "seen"])
        assert [type(each.error) for each in deleted.topics] == [TopicAccessDenied, type(None)]
        left = await everything.describe_offsets(ANYONE, "g", None)
        assert [each.name for each in left.topics] == ["hidden"]
        assert left.topics[0].partitions[0].start_offset == 0
