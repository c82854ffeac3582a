"""What the audit hears of, through the services, and who may see it."""

import asyncio
import json
from pathlib import Path

import pytest

from goqueue.broker.node import Node
from goqueue.broker.security.users import records_of
from goqueue.model.audit import AuditEntry, Outcome
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.configs import ConfigChange, ConfigOp, ConfigResource, ConfigResourceKind
from goqueue.model.errors import AccessDenied, ClusterAccessDenied, TopicExists, UnknownTopic
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.rights import Verb
from goqueue.model.security.errors import AuthenticationFailed
from goqueue.model.topics import AUDIT_TOPIC, NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.access import Access
from tests.rules import Granted, cluster, topic
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

ALICE = Caller(
    principal=Principal("User", "alice"), door=Door.KAFKA, client_id="app", address="10.0.0.1"
)
SEES = cluster(Verb.DESCRIBE)


async def entries(
    service: BrokerService, event: str | None = None, caller: Caller = ALICE
) -> list[AuditEntry]:
    """The oldest first."""
    found = await service.audit.recent(caller, limit=1_000, principal=None, event=event)
    return found.entries[::-1]


def all_rights(node: Node) -> BrokerService:
    return BrokerService(node)


async def test_a_change_says_who_what_where_and_how_it_ended(open_broker: OpenBroker) -> None:
    async with open_broker(audit__enabled="true") as node:
        service = all_rights(node)
        await service.topics.create(
            ALICE, NewTopic(name="orders", partitions=2, config={"retention.ms": "77"})
        )
        with pytest.raises(TopicExists):
            await service.topics.create(ALICE, NewTopic(name="orders"))
        made, again = await entries(service, "topic")
        assert made.time_ms <= again.time_ms
        assert made == AuditEntry(
            time_ms=made.time_ms,
            event="topic.create",
            outcome=Outcome.SUCCESS,
            principal="User:alice",
            door="kafka",
            address="10.0.0.1",
            client_id="app",
            resource="topic",
            name="orders",
            detail={"partitions": "2", "config": "retention.ms=77"},
        )
        assert (again.outcome, again.error) == (Outcome.FAILURE, "topic_exists")


async def test_what_is_only_checked_is_no_change(open_broker: OpenBroker) -> None:
    async with open_broker(audit__enabled="true") as node:
        service = all_rights(node)
        await service.topics.make(ALICE, NewTopic(name="orders"), validate_only=True)
        with pytest.raises(UnknownTopic):
            service.topics.view(ALICE, "orders")
        assert await entries(service) == []


async def test_settings_are_told_by_name_and_value_unless_they_may_be_secret(
    open_broker: OpenBroker,
) -> None:
    async with open_broker(audit__enabled="true") as node:
        service = all_rights(node)
        brokers = ConfigResource(ConfigResourceKind.BROKER, "")
        changes = [
            ConfigChange(name="max.connections", value="9000"),
            ConfigChange(name="topic.retention.ms", op=ConfigOp.DELETE),
        ]
        await service.administration.alter_config(ALICE, brokers, changes)
        await service.sqs_queues.create(ALICE, "tasks", {}, {"team": "blue"})
        await service.sqs_queues.set_tags(ALICE, "tasks", {"team": "a secret"})
        [altered] = await entries(service, "config")
        assert altered.detail == {
            "kind": "broker",
            "changes": "max.connections=9000, topic.retention.ms (taken back)",
        }
        [tagged] = await entries(service, "queue.tags")
        assert tagged.detail == {"tags": "team"}


async def test_topics_made_by_being_asked_for_are_told_once(open_broker: OpenBroker) -> None:
    async with open_broker(audit__enabled="true") as node:
        service = all_rights(node)
        for _ in range(3):
            await service.topics.ensure(ALICE, "orders")
        assert [(each.event, each.name) for each in await entries(service)] == [
            ("topic.create", "orders")
        ]


async def test_offsets_set_by_no_member_are_gathered(open_broker: OpenBroker) -> None:
    async with open_broker(audit__enabled="true") as node:
        service = all_rights(node)
        await service.topics.ensure(ALICE, "orders")
        offset = OffsetToCommit(topic="orders", partition=0, offset=0)
        for _ in range(5):
            await service.groups.commit(ALICE, OffsetCommit(group_id="g", offsets=(offset,)))
        [told] = await entries(service, "group.offsets.set")
        assert (told.name, told.count) == ("g", 1)
        await node.audit.close()
        assert [each.count for each in await entries(service, "group.offsets.set")] == [1, 4]


async def test_refusals_are_gathered_and_told_once(open_broker: OpenBroker) -> None:
    async with open_broker(audit__enabled="true") as node:
        service = BrokerService(node, Granted(SEES))
        for _ in range(10):
            with pytest.raises(AccessDenied):
                await service.topics.delete(ALICE, "orders")
        [told] = await entries(service)
        assert (told.event, told.outcome, told.count) == ("access", Outcome.REFUSED, 1)
        assert (told.resource, told.name, told.detail) == ("topic", "orders", {"verb": "delete"})
        await node.audit.close()
        assert sum(each.count for each in await entries(service)) == 10


async def test_brokers_among_themselves_are_not_told_of(open_broker: OpenBroker) -> None:
    async with open_broker(audit__enabled="true") as node:
        service = all_rights(node)
        broker = Caller(principal=Principal("Broker", "brokers"), door=Door.KAFKA)
        await service.topics.create(broker, NewTopic(name="orders"))
        assert await entries(service) == []


async def test_log_ins_are_told_without_what_was_shown(
    open_broker: OpenBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_broker(
        security__enabled="true", connection__failed__authentication__delay__ms="0"
    ) as node:
        service = BrokerService(node, Granted(SEES))
        right = Access().alterable_cluster(ALICE)
        await node.security.users.create(right, "alice", scram=records_of("open-sesame"))
        log_ins = service.authentication.notes
        log_ins.came_from(Door.HTTP, "10.0.0.9")
        await service.authentication.by_password("alice", "open-sesame")
        for name in ("alice", "open-sesame", "open-sesame"):
            with pytest.raises(AuthenticationFailed):
                await service.authentication.by_password(name, "guessed-wrong")
        good, bad, unknown = await entries(service, "login")
        assert (good.principal, good.outcome) == ("User:alice", Outcome.SUCCESS)
        assert (good.door, good.address) == ("http", "10.0.0.9")
        assert good.detail == {"mechanism": "password"}
        assert (bad.principal, bad.outcome) == ("User:alice", Outcome.FAILURE)
        # A password in the wrong field is not written down.
        assert unknown.principal == "User:?"
        figures = node.audit.figures(Access().describable_cluster(ALICE))
        assert figures.failed_log_ins["http"] == 3
        assert figures.events["login", "failure"] == 3
    assert "log-in failed at the http door from 10.0.0.9 as User:alice (password)" in caplog.text
    assert "open-sesame" not in caplog.text
    assert "guessed-wrong" not in caplog.text


async def test_many_failures_are_few_log_lines(
    open_broker: OpenBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_broker() as node:
        for number in range(500):
            node.audit.log_in_failed(
                Principal("User", "?"), Door.KAFKA, f"10.0.0.{number}", "PLAIN"
            )
        figures = node.audit.figures(Access().describable_cluster(ALICE))
        assert figures.failed_log_ins["kafka"] == 500
    assert len([each for each in caplog.records if "log-in failed" in each.getMessage()]) == 30


async def test_it_is_off_while_security_is(open_broker: OpenBroker, tmp_path: Path) -> None:
    async with open_broker() as node:
        service = all_rights(node)
        await service.topics.create(ALICE, NewTopic(name="orders"))
        assert await entries(service) == []
        assert AUDIT_TOPIC not in node.image.topics
    assert not (tmp_path / "data" / "audit").exists()


async def test_who_may_see_the_cluster_may_read_the_topic_and_nobody_writes_it(
    open_broker: OpenBroker,
) -> None:
    async with open_broker(audit__enabled="true") as node:
        everything = all_rights(node)
        await everything.topics.create(ALICE, NewTopic(name="orders"))
        while AUDIT_TOPIC not in node.image.topics:
            await asyncio.sleep(0)
        blind = BrokerService(node, Granted(*(topic(AUDIT_TOPIC, verb) for verb in Verb)))
        assert [each.name for each in blind.topics.views(ALICE)] == []
        with pytest.raises(AccessDenied):
            blind.topics.view(ALICE, AUDIT_TOPIC)
        seeing = BrokerService(node, Granted(SEES))
        assert [each.name for each in seeing.topics.views(ALICE)] == [AUDIT_TOPIC]
        assert Access(Granted(SEES)).readable_topic(ALICE, AUDIT_TOPIC) == AUDIT_TOPIC
        with pytest.raises(AccessDenied):
            Access(Granted(SEES)).writable_topic(ALICE, AUDIT_TOPIC)
        assert [each.name for each in await entries(seeing, "topic")] == ["orders"]
        with pytest.raises(AccessDenied):
            await entries(blind)


async def test_it_tells_of_tenants_and_not_to_them(open_broker: OpenBroker) -> None:
    async with open_broker(audit__enabled="true") as node:
        service = all_rights(node)
        theirs = Caller(principal=Principal("User", "bob", "acme"), door=Door.HTTP)
        await service.topics.create(ALICE, NewTopic(name="ours"))
        await service.topics.create(theirs, NewTopic(name="acme@theirs"))
        with pytest.raises(ClusterAccessDenied):
            await entries(service, caller=theirs)
        assert [each.tenant for each in await entries(service, "topic.create")] == ["", "acme"]


async def test_files_and_memory_go_on_after_a_restart(
    open_broker: OpenBroker, tmp_path: Path
) -> None:
    for number in range(3):
        async with open_broker(audit__enabled="true") as node:
            service = all_rights(node)
            await service.topics.create(ALICE, NewTopic(name=f"t{number}"))
            names = [each.name for each in await entries(service, "topic.create")]
            assert names == [f"t{each}" for each in range(number + 1)]
    [path] = (tmp_path / "data" / "audit").iterdir()
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()] == names
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_files_are_rotated(open_broker: OpenBroker, tmp_path: Path) -> None:
    settings = {
        "audit__enabled": "true",
        "audit__topic__enabled": "false",
        "audit__file__max__bytes": "1024",
        "audit__file__max__files": "3",
    }
    for number in range(8):
        async with open_broker(**settings) as node:
            for each in range(3):
                await all_rights(node).topics.create(ALICE, NewTopic(name=f"t{number}-{each}"))
            assert AUDIT_TOPIC not in node.image.topics
    paths = sorted((tmp_path / "data" / "audit").iterdir())
    assert len(paths) == 3
    assert json.loads(paths[-1].read_text().splitlines()[-1])["name"] == "t7-2"
