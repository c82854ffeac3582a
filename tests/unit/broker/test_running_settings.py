"""Settings that are changed while a broker runs: what goes by them, and what is refused."""

from collections.abc import Mapping

import pytest

from goqueue.broker.node import Node
from goqueue.model.configs import ConfigChange, ConfigOp, ConfigResource, ConfigResourceKind
from goqueue.model.errors import InvalidConfig, InvalidRequest, UnknownBroker, UnknownTopic
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import JoinGroup, MemberProtocol
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

ALL, THIS = "", "0"


async def change(node: Node, broker: str, values: Mapping[str, str | None]) -> None:
    changes = [
        ConfigChange(name=name, op=ConfigOp.DELETE)
        if value is None
        else ConfigChange(name=name, value=value)
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResourceKind.BROKER, broker)
    await BrokerService(node).administration.alter_config(ANYONE, resource, changes)


def described(node: Node, broker: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResourceKind.BROKER, broker)
    entries = BrokerService(node).administration.describe_config(ANYONE, resource)
    return {entry.name: entry.value for entry in entries}


async def test_a_change_holds_at_once_and_after_a_restart(open_broker: OpenBroker) -> None:
    async with open_broker(num__partitions="2") as node:
        service = BrokerService(node)
        assert len((await service.topics.create(ANYONE, NewTopic(name="a"))).topic.partitions) == 2
        await change(node, ALL, {"num.partitions": "4", "log.retention.ms": "12345"})
        assert len((await service.topics.create(ANYONE, NewTopic(name="b"))).topic.partitions) == 4
        assert node.topic_config(node.topic("a")).retention_ms == 12_345
        partition = node.hosted.get("a", 0)
        assert partition is not None
        assert partition.config.retention_ms == 12_345
        await change(node, THIS, {"num.partitions": "5"})
    async with open_broker(num__partitions="2") as node:
        assert node.config.num_partitions == 5
        assert described(node, ALL)["log.retention.ms"] == "12345"
        await change(node, THIS, {"num.partitions": None})
        assert node.config.num_partitions == 4
        await change(node, ALL, {"num.partitions": None})
        assert node.config.num_partitions == 2


async def test_topics_are_made_on_demand_while_that_is_on(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        service = BrokerService(node)
        await change(node, ALL, {"auto.create.topics.enable": "false"})
        with pytest.raises(UnknownTopic, match=r"auto.create.topics.enable"):
            await service.topics.ensure(ANYONE, "fresh")
        await change(node, ALL, {"auto.create.topics.enable": None})
        assert (await service.topics.ensure(ANYONE, "fresh")).name == "fresh"


async def test_groups_and_transactions_go_by_it(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        groups = BrokerService(node).groups
        join = JoinGroup(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(MemberProtocol(name="range", metadata=b""),),
            requires_known_member_id=False,
        )
        assert (await groups.join(ANYONE, join)).error is GroupError.NONE
        await change(node, THIS, {"group.min.session.timeout.ms": "10001"})
        assert (await groups.join(ANYONE, join)).error is GroupError.INVALID_SESSION_TIMEOUT
        await change(node, ALL, {"group.share.record.lock.duration.ms": "1234"})
        assert node.group_configs.of("any").share_record_lock_duration_ms == 1_234
        await change(node, ALL, {"group.streams.num.standby.replicas": "1"})
        assert node.group_configs.of("any").streams_num_standby_replicas == 1
        await change(node, ALL, {"log.cleaner.backoff.ms": "77"})
        assert node.compactor.backoff_ms == 77
        partition = next(iter(node.hosted))
        await change(node, ALL, {"producer.id.expiration.ms": "1000"})
        assert partition.ledger.producers.expiration_ms == 1_000


@pytest.mark.parametrize(
    ("broker", "values", "error", "said"),
    [
        (THIS, {"kafka.port": "1"}, InvalidRequest, "kafka.port: cannot be changed at run time"),
        (THIS, {"listeners": "x"}, InvalidRequest, "listeners: cannot be changed at run time"),
        (THIS, {"log.dirs": "/x"}, InvalidRequest, "log.dirs: cannot"),
        (THIS, {"advertised.http.url": "x"}, InvalidRequest, "cannot be changed"),
        (THIS, {"num.io.threads": "8"}, InvalidConfig, "num.io.threads: no such setting"),
        (THIS, {"log.retention.ms": "x"}, InvalidConfig, "^log.retention.ms: 'x' is not"),
        (ALL, {"max.connections": "0"}, InvalidConfig, "max.connections: 0 is below"),
        (
            ALL,
            {"log.retention.ms": "1", "topic.retention.ms": "2"},
            InvalidRequest,
            "topic.retention.ms: named twice",
        ),
        (ALL, {"topic.remote.storage.enable": "true"}, InvalidConfig, "no remote storage"),
        (ALL, {"cordoned.log.dirs": "*"}, InvalidConfig, "of one broker"),
        (
            ALL,
            {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"},
            InvalidConfig,
            "must not be above",
        ),
        (
            THIS,
            {"group.consumer.heartbeat.interval.ms": "45000"},
            InvalidConfig,
            "must be below group.consumer.session.timeout.ms",
        ),
        (
            ALL,
            {"group.streams.session.timeout.ms": "5000"},
            InvalidConfig,
            "must be below group.streams.session.timeout.ms",
        ),
        ("7", {"max.connections": "9"}, UnknownBroker, "there is no broker 7"),
    ],
)
async def test_what_is_refused_changes_nothing(
    open_broker: OpenBroker,
    broker: str,
    values: dict[str, str],
    error: type[Exception],
    said: str,
) -> None:
    async with open_broker() as node:
        before = described(node, THIS)
        with pytest.raises(error, match=said) as refused:
            await change(node, broker, {"num.partitions": "7", **values})
        assert type(refused.value) is error
        assert described(node, THIS) == before
        assert node.config.num_partitions == 3


async def test_defaults_must_go_together_with_what_topics_say(open_broker: OpenBroker) -> None:
    async with open_broker() as node:
        new = NewTopic(name="a", config={"max.compaction.lag.ms": "10"})
        await BrokerService(node).topics.create(ANYONE, new)
        for broker in (ALL, THIS):
            with pytest.raises(InvalidConfig, match=r"min.compaction.lag.ms"):
                await change(node, broker, {"log.cleaner.min.compaction.lag.ms": "11"})
        await change(node, ALL, {"log.cleaner.min.compaction.lag.ms": "10"})
        assert node.topic_config(node.topic("a")).min_compaction_lag_ms == 10


async def test_what_was_set_of_one_broker_goes_when_all_is_replaced(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as node:
        administration = BrokerService(node).administration
        resource = ConfigResource(ConfigResourceKind.BROKER, THIS)
        await change(node, THIS, {"max.connections": "9", "num.partitions": "9"})
        await administration.replace_config(ANYONE, resource, {"log.segment.bytes": "9999"})
        assert node.image.broker_config(node.node_id) == {"topic.segment.bytes": "9999"}
        twice = {"log.segment.bytes": "1000", "topic.segment.bytes": "2000"}
        with pytest.raises(InvalidRequest, match=r"has another value than topic\.segment\.bytes"):
            await administration.replace_config(ANYONE, resource, twice)
        for names in (list(twice), list(reversed(twice))):
            # One is told as it was, the other is new.
            told = dict(zip(names, ("9999", "3000"), strict=True))
            for texts in (told, dict(reversed(told.items()))):
                await administration.replace_config(ANYONE, resource, texts)
                assert node.image.broker_config(node.node_id) == {"topic.segment.bytes": "3000"}
                again = {"log.segment.bytes": "9999"}
                await administration.replace_config(ANYONE, resource, again)
        await administration.replace_config(ANYONE, resource, {})
        assert node.node_id not in node.image.broker_configs
