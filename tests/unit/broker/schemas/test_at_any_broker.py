"""The registry at brokers that do not lead it: changes, reads, checks of what is published."""

import asyncio
from typing import NoReturn

import pytest

from goqueue.broker.schemas import following, writing
from goqueue.broker.schemas.catalogues import SCHEMAS_TOPIC
from goqueue.model.calls import Method
from goqueue.model.errors import BrokerUnreachable, GoQueueError, InvalidRecord, NotLeader
from goqueue.model.names import NO_LEADER, NodeId
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import CompatibilityLevel, Mode, NewSchema, SubjectConfig
from goqueue.model.topics import NewTopic
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes


def number(count: int) -> NewSchema:
    """The schemas of this many are all different."""
    return NewSchema(SchemaType.JSON, f'{{"type":"integer","maximum":{count}}}')


def leader_of(node: RunningNode) -> int:
    topic = node.node.image.topics.get(SCHEMAS_TOPIC)
    return NO_LEADER if topic is None else int(topic.partitions[0].leader)


async def register(node: RunningNode, subject: str, new: NewSchema) -> int:
    return (await node.service.schemas.register(ANYONE, subject, new)).schema.id


async def text_of(node: RunningNode, schema_id: int) -> str:
    return (await node.service.schemas.schema(ANYONE, schema_id)).schema.text


async def started(nodes: Nodes, count: int = 3) -> tuple[RunningNode, list[RunningNode]]:
    """The leader of the registry, and the others."""
    running = await nodes.start(*range(1, count + 1))
    await register(running[0], "first", number(0))
    await nodes.until(lambda: len({leader_of(node) for node in running}) == 1)
    leader = nodes.running[leader_of(running[0])]
    return leader, [node for node in running if node is not leader]


def cut_off(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches no other broker."""

    async def ask(*_args: object, **_kwargs: object) -> NoReturn:
        raise BrokerUnreachable("nobody is there")

    monkeypatch.setattr(node.node.calls, "ask", ask)


async def stop_following(node: RunningNode) -> None:
    """Its copy is as old as its last question."""
    await node.node.schemas.catalogues._followed.close()


async def stop_copying(nodes: Nodes, *followers: RunningNode) -> None:
    """Nothing that the leader writes is committed from now on."""
    for node in followers:
        replication = node.node.replication
        assert replication is not None
        await replication.close()


@with_nodes
async def test_registered_at_any_broker_and_read_at_every_one_at_once(nodes: Nodes) -> None:
    # One of them has no replica of the registry's log.
    leader, others = await started(nodes, 4)
    everyone = [leader, *others]
    view = leader.node.image.topics[SCHEMAS_TOPIC].partitions[0]
    assert len(view.replicas) == 3
    for count in range(1, 13):
        node = everyone[count % len(everyone)]
        assert await register(node, f"subject-{count}", number(count)) == count + 1
        texts = await asyncio.gather(*(text_of(each, count + 1) for each in everyone))
        assert set(texts) == {number(count).text}
    for node in everyone:
        subjects = await node.service.schemas.subjects(
            ANYONE, "subject-", deleted=False, deleted_only=False
        )
        assert len(subjects) == 12
        # The same again is found, wherever it was registered.
        assert await register(node, "subject-1", number(1)) == 2


@with_nodes
async def test_settings_and_deletions_at_any_broker(nodes: Nodes) -> None:
    leader, (one, two) = await started(nodes)
    schemas, elsewhere = one.service.schemas, two.service.schemas
    await schemas.set_config(ANYONE, "first", SubjectConfig(compatibility=CompatibilityLevel.FULL))
    assert (await elsewhere.config(ANYONE, "first")).compatibility is CompatibilityLevel.FULL
    await schemas.set_mode(ANYONE, "first", Mode.READONLY)
    assert await elsewhere.mode(ANYONE, "first") is Mode.READONLY
    with pytest.raises(RegistryRefusal) as refused:
        await elsewhere.register(ANYONE, "first", number(7))
    assert refused.value.kind is RefusalKind.NOT_PERMITTED
    assert await elsewhere.delete_mode(ANYONE, "first") is Mode.READONLY
    assert await schemas.delete_config(ANYONE, "first") == SubjectConfig(
        compatibility=CompatibilityLevel.FULL
    )
    assert await schemas.delete_version(ANYONE, "first", None, is_permanent=False) == 1
    for node in (leader, one, two):
        with pytest.raises(RegistryRefusal) as refused:
            await node.service.schemas.versions(ANYONE, "first", deleted=False)
        assert refused.value.kind is RefusalKind.SUBJECT_NOT_FOUND
    assert await elsewhere.delete_subject(ANYONE, "first", is_permanent=True) == [1]
    await schemas.register(ANYONE, ":.other:s", number(1))
    for permanent in (False, True):
        await elsewhere.delete_subject(ANYONE, ":.other:s", is_permanent=permanent)
    await schemas.delete_context(ANYONE, ".other")
    assert await elsewhere.contexts(ANYONE) == ["."]


@with_nodes
async def test_incompatible_schemas_are_refused_at_any_broker(nodes: Nodes) -> None:
    leader, (one, two) = await started(nodes)
    text = '{"type": "string"}'
    mismatch = await two.service.schemas.check(ANYONE, "first", NewSchema(SchemaType.JSON, text))
    assert mismatch is not None
    with pytest.raises(RegistryRefusal) as refused:
        await register(one, "first", NewSchema(SchemaType.JSON, text))
    assert refused.value.kind is RefusalKind.INCOMPATIBLE
    # Schemas are compared by the leader, and by whoever is asked whether they could be.
    workers = [node.node.schemas.worker.starts > 0 for node in (leader, one, two)]
    assert workers == [True, False, True]


@with_nodes
async def test_ids_go_on_under_another_leader(nodes: Nodes) -> None:
    leader, others = await started(nodes)
    told: dict[int, str] = {1: number(0).text}

    async def go_on(node: RunningNode, counts: range) -> None:
        for count in counts:
            new = number(count)
            told[await register(node, f"{node.id}-{count}", new)] = new.text

    working = [
        asyncio.create_task(go_on(node, range(100 * node.id, 100 * node.id + 30)))
        for node in others
    ]
    await nodes.until(lambda: len(told) > 10)
    await nodes.die(leader.id)
    await asyncio.gather(*working)
    assert len(told) == 61
    for node in others:
        for schema_id, text in told.items():
            assert await text_of(node, schema_id) == text


@with_nodes
async def test_a_registration_whose_answer_was_lost_is_asked_for_again(nodes: Nodes) -> None:
    leader, (one, _) = await started(nodes)
    calls, asked = one.node.calls, 0
    call = calls._call

    async def lossy(node: NodeId, method: Method[object, object], *args: object) -> object:
        nonlocal asked
        answer = await call(node, method, *args)  # type: ignore[arg-type]
        if method is writing.REGISTER or method is writing.SET_MODE:
            asked += 1
            if asked % 2:
                raise BrokerUnreachable("it was done, and the answer did not come")
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "_call", lossy)
        assert await register(one, "s", number(1)) == 2
        assert asked == 2
        # Who sets something is told instead.
        with pytest.raises(BrokerUnreachable):
            await one.service.schemas.set_mode(ANYONE, "s", Mode.READONLY)
        assert asked == 3
    assert await leader.service.schemas.mode(ANYONE, "s") is Mode.READONLY


@with_nodes
async def test_nobody_is_shown_what_is_not_committed(nodes: Nodes) -> None:
    leader, others = await started(nodes)
    await stop_copying(nodes, *others)
    pending = asyncio.create_task(register(leader, "s", number(1)))
    await nodes.until(lambda: len(leader.node.schemas.catalogues.now.schemas) == 2)
    # It would have to be taken back if another broker led now.
    again = asyncio.create_task(register(others[0], "s", number(1)))
    reads = [
        asyncio.create_task(text_of(leader, 2)),
        asyncio.create_task(leader.service.schemas.versions(ANYONE, "s", deleted=False)),
    ]
    done, _ = await asyncio.wait([pending, again, *reads], timeout=0.3)
    assert not done
    for node in others:
        with pytest.raises(RegistryRefusal):
            await text_of(node, 2)
    # What was there before is shown meanwhile by those who have nothing else.
    assert await text_of(others[0], 1) == number(0).text
    # Also who finds it registered by one that is gone is not told so.
    pending.cancel()
    once_more = asyncio.create_task(register(others[1], "s", number(1)))
    done, _ = await asyncio.wait([once_more], timeout=0.3)
    assert not done
    for task in (again, once_more, *reads):
        task.cancel()
    await asyncio.gather(pending, again, once_more, *reads, return_exceptions=True)


@with_nodes
async def test_without_a_leader_the_copy_is_shown_unless_it_lacks_what_was_told(
    nodes: Nodes,
) -> None:
    _, (one, two) = await started(nodes)
    for node in (one, two):
        assert await text_of(node, 1) == number(0).text
        await stop_following(node)
    assert await register(one, "s", number(1)) == 2
    with pytest.MonkeyPatch.context() as patch:
        cut_off(one, patch)
        cut_off(two, patch)
        assert await two.service.schemas.subjects(
            ANYONE, "", deleted=False, deleted_only=False
        ) == ["first"]
        # A client of this one knows better.
        with pytest.raises(BrokerUnreachable):
            await one.service.schemas.subjects(ANYONE, "", deleted=False, deleted_only=False)
    assert await text_of(one, 2) == number(1).text


@with_nodes
async def test_many_reads_at_once_share_a_question(nodes: Nodes) -> None:
    leader, (one, _) = await started(nodes)
    await text_of(one, 1)
    await stop_following(one)
    state = leader.node.schemas.catalogues.state
    asked, shard = 0, state.shard

    async def counted(index: int) -> object:
        nonlocal asked
        asked += 1
        return await shard(index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "shard", counted)
        await asyncio.gather(*(text_of(one, 1) for _ in range(200)))
    assert asked <= 3


@with_nodes
async def test_a_leader_keeps_no_copy(nodes: Nodes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # It asks itself when it begins to lead, and lets go of its copy after the answer.
        patch.setattr(following, "WAIT_S", 0.5)
        leader, others = await started(nodes)
        for node in others:
            catalogues = node.node.schemas.catalogues
            await nodes.until(lambda c=catalogues: c.now.schemas)  # type: ignore[misc]
            assert catalogues.position is not None
        await nodes.die(leader.id)
        await nodes.until(lambda: len({leader_of(node) for node in others} - {leader.id}) == 1)
        new_leader = nodes.running[leader_of(others[0])]
        assert await text_of(new_leader, 1) == number(0).text
        await nodes.until(lambda: new_leader.node.schemas.catalogues.position is None)


# --- checks of what is published ----------------------------------------------------------


async def checked_topic(nodes: Nodes, leader: int) -> None:
    other = [node for node in nodes.running if node != leader]
    topic = NewTopic(
        name=TOPIC,
        assignments={0: (leader, *other)},
        config={"schema.validation.value": "content"},
    )
    await nodes.running[leader].service.topics.create(ANYONE, topic)
    await nodes.until(lambda: nodes.running[leader].leads())


async def produce(node: RunningNode, value: bytes) -> None:
    batch = encode_records([NewRecord(value=value)], now_ms=1)
    await node.service.log.produce(ANYONE, TOPIC, 0, batch, acks=1, timeout_ms=1_000)


@with_nodes
async def test_messages_fit_schemas_registered_a_moment_ago_at_another_broker(
    nodes: Nodes,
) -> None:
    _, (one, two) = await started(nodes)
    await checked_topic(nodes, one.id)
    await text_of(one, 1)
    await stop_following(one)
    with pytest.raises(InvalidRecord, match="there is no schema with id 2"):
        await produce(one, b"\x00\x00\x00\x00\x025")
    await two.service.schemas.register(ANYONE, f"{TOPIC}-value", number(9))
    await produce(one, b"\x00\x00\x00\x00\x025")
    with pytest.raises(InvalidRecord, match="does not fit schema 2"):
        await produce(one, b"\x00\x00\x00\x00\x0210")
    # Plain JSON is held against the latest.
    with pytest.raises(InvalidRecord, match="does not fit schema 2"):
        await produce(one, b"10")
    await two.service.schemas.register(ANYONE, f"{TOPIC}-value", number(20))
    await produce(one, b"10")


@with_nodes
async def test_messages_are_not_refused_for_good_while_the_registry_cannot_be_asked(
    nodes: Nodes,
) -> None:
    _, (one, two) = await started(nodes)
    await checked_topic(nodes, one.id)
    await two.service.schemas.register(ANYONE, f"{TOPIC}-value", number(9))
    await produce(one, b"\x00\x00\x00\x00\x025")
    await stop_following(one)
    with pytest.MonkeyPatch.context() as patch:
        cut_off(one, patch)
        # What is known needs nobody else.
        await produce(one, b"\x00\x00\x00\x00\x026")
        with pytest.raises(GoQueueError) as refused:
            await produce(one, b"\x00\x00\x00\x00\x0310")
        assert not isinstance(refused.value, InvalidRecord)
        assert isinstance(refused.value, BrokerUnreachable | NotLeader)
