"""What several brokers noted of a message, told as one story by each of them."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from goqueue.broker.stories import gathering
from goqueue.model.calls import Unanswered
from goqueue.model.errors import NotLeader, Overloaded, StateLoading
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.log import PageRequest, Published
from goqueue.model.records import NewRecord
from goqueue.model.rights import Verb
from goqueue.model.topics import NewTopic
from goqueue.model.tracing.query import FoundSpans, FoundTraces, SpanQuery
from goqueue.model.tracing.spans import Event, MessagePlace
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.rules import Granted, cluster, topic
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes
from tests.unit.broker.test_tracing import PUBLISHED, SAMPLED, TRACE

ALL = {"tracing__sampling__rate": "1"}
NONE = {"tracing__sampling__rate": "0"}


async def read(node: RunningNode, offset: int = 0, partition: int = 0) -> None:
    wanted = PageRequest(offset=offset, limit=100, max_bytes=1 << 20)
    page = await node.service.log.read_page(ANYONE, TOPIC, partition, wanted)
    assert page.records


async def commit(nodes: Nodes, offset: int) -> None:
    """At the group's coordinator, whoever that is."""
    committed = OffsetToCommit(topic=TOPIC, partition=0, offset=offset)
    request = OffsetCommit(group_id="g", offsets=(committed,))
    while True:
        for node in nodes.running.values():
            with contextlib.suppress(NotLeader, StateLoading):
                [done] = (await node.service.groups.commit(ANYONE, request)).partitions
                assert done.error is GroupError.NONE
                return
        await asyncio.sleep(0.01)


async def story(node: RunningNode, offset: int = 0) -> FoundSpans:
    return await node.service.tracing.of_message(ANYONE, MessagePlace(TOPIC, 0, offset))


async def events(node: RunningNode, offset: int = 0) -> list[str]:
    return [span.event for span in (await story(node, offset)).spans]


async def eventually(is_so: Callable[[], object]) -> None:
    while not is_so():
        await asyncio.sleep(0.005)


async def until_events(node: RunningNode, *expected: Event, offset: int = 0) -> None:
    while await events(node, offset) != list(expected):
        await asyncio.sleep(0.01)


@with_nodes
async def test_a_message_has_one_story_at_every_broker(nodes: Nodes) -> None:
    running = await nodes.start(1, 2, 3, 4, **ALL)
    # The last one has no replica.
    await nodes.make_topic(replicas=[1, 2, 3])
    one, two, _, four = running
    [stored] = await publish(four.node, TOPIC, [NewRecord(value=b"v")])
    await read(two)
    await commit(nodes, 1)
    whole = (*PUBLISHED, Event.CONSUME_FETCHED, Event.CONSUME_ACKED)
    for node in running:
        await until_events(node, *whole)
        found = await story(node)
        assert found.is_complete
        assert not found.unanswered
        [trace_id] = {span.trace_id for span in found.spans}
        trace = await node.service.tracing.trace(ANYONE, trace_id)
        assert trace.spans == found.spans
        [summary] = (await node.service.tracing.recent(ANYONE, 10)).traces
        assert (summary.trace_id, summary.spans) == (trace_id, len(whole))
    # Who published it through another broker is told its trace.
    assert isinstance(stored, Published)
    found_trace = four.service.tracing.traceparent(ANYONE, TOPIC, 0, stored.offset)
    assert found_trace is not None
    assert trace_id in found_trace
    assert one.leads()


@with_nodes
async def test_a_story_goes_on_where_another_broker_leads(nodes: Nodes) -> None:
    one, two, three = await nodes.start(1, 2, 3, **NONE)
    await nodes.make_topic()
    await nodes.until_in_sync(1, 2, 3)
    # Traced because its producer says so, which its offset does not tell.
    await publish(
        two.node, TOPIC, [NewRecord(value=b"v"), NewRecord(value=b"w", headers=(SAMPLED,))]
    )
    contexts = [node.node.tracing._recorder.contexts for node in (two, three)]
    await eventually(lambda: all(len(table) for table in contexts))
    await nodes.die(one.id)
    await nodes.until(lambda: nodes.leader() is not None)
    await read(three)
    for node in (two, three):
        found = await story(node, offset=1)
        assert [(span.event, span.trace_id) for span in found.spans] == [
            (Event.CONSUME_FETCHED, TRACE)
        ]
        # What the first leader noted is with it.
        assert not found.is_complete
        assert found.unanswered == [Unanswered(one.node.node_id, "it is down")]
        # The other message is not traced.
        assert not (await story(node, offset=0)).spans
    [one] = await nodes.start(1, **NONE)
    await until_events(one, *PUBLISHED, Event.CONSUME_FETCHED, offset=1)
    assert not (await story(one, offset=1)).unanswered


@with_nodes
async def test_the_newest_traces_of_all_brokers(nodes: Nodes) -> None:
    running = await nodes.start(1, 2, 3, **ALL)
    await nodes.make_topic(partitions=3)
    for count in range(12):
        await publish(running[0].node, TOPIC, [NewRecord(value=b"v")], partition=count % 3)
    for node in running:
        found = await node.service.tracing.recent(ANYONE, 5)
        assert [(each.partition, each.offset) for each in found.traces] == [
            (count % 3, count // 3) for count in range(11, 6, -1)
        ]
        assert not found.is_complete
        everything = await node.service.tracing.recent(ANYONE, 100)
        assert len(everything.traces) == 12
        assert everything.is_complete
        one_leaders = await node.service.tracing.search(ANYONE, SpanQuery(partition=1), 100)
        assert {each.partition for each in one_leaders.traces} == {1}
        assert len(one_leaders.traces) == 4


@with_nodes
async def test_topics_that_a_caller_may_not_read(nodes: Nodes) -> None:
    one, two = await nodes.start(1, 2, **ALL, default__replication__factor="1")
    await nodes.make_topic()
    await one.service.topics.create(ANYONE, NewTopic(name="secret", assignments={0: (1,)}))
    await nodes.until(lambda: "secret" in two.node.image.topics)
    await publish(two.node, TOPIC, [NewRecord(value=b"v")])
    for _ in range(3):
        await publish(two.node, "secret", [NewRecord(value=b"v")])
    tracing = BrokerService(two.node, Granted(topic(TOPIC, Verb.READ))).tracing
    # As many as may be seen, whatever there is besides.
    found = await tracing.recent(ANYONE, 1)
    assert [each.topic for each in found.traces] == [TOPIC]
    everything = await two.service.tracing.recent(ANYONE, 10)
    for each in everything.traces:
        spans = (await tracing.trace(ANYONE, each.trace_id)).spans
        assert {span.topic for span in spans} == ({TOPIC} if each.topic == TOPIC else set())


@with_nodes
async def test_a_broker_that_does_not_answer_is_named(nodes: Nodes) -> None:
    one, two, _ = await nodes.start(1, 2, 3, **ALL)
    await nodes.make_topic()
    await publish(two.node, TOPIC, [NewRecord(value=b"v")])

    async def never(_work: object) -> None:
        await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "ANSWER_TIMEOUT_S", 0.1)
        patch.setattr(one.node.tracing, "in_thread", never)
        patch.setattr(one.node.tracing, "figures", lambda: never(None))
        found = await two.service.tracing.recent(ANYONE, 10)
        assert not found.is_complete
        [silent] = found.unanswered
        assert silent.broker == one.id
        assert "did not answer within 0.1 s" in silent.reason
        told = await story(two)
        assert not told.is_complete
        assert [each.broker for each in told.unanswered] == [one.id]
        # Asked once for each of the two, and not waited for again.
        assert two.node.calls.counts.unanswered[one.node.node_id] == 2
        figures = await two.service.tracing.figures(ANYONE)
        assert [each.broker for each in figures.unanswered] == [one.id]
        assert figures.ring_size == 2 * one.node.config.tracing_ring_spans
    assert (await two.service.tracing.recent(ANYONE, 10)).is_complete
    figures = await two.service.tracing.figures(ANYONE)
    assert figures.ring_size == 3 * one.node.config.tracing_ring_spans
    assert figures.recorded_spans == 4
    assert not figures.unanswered
    rights = Granted(cluster(Verb.DESCRIBE))
    assert (await BrokerService(two.node, rights).tracing.figures(ANYONE)).recorded_spans == 4


@with_nodes
async def test_queries_stand_in_line_and_the_line_has_an_end(nodes: Nodes) -> None:
    _, two, _ = await nodes.start(1, 2, 3)
    asked = [
        asyncio.create_task(two.service.tracing.search(ANYONE, SpanQuery(), 10))
        for _ in range(gathering.WAITING_MAX + 5)
    ]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, Overloaded) for each in found) == 5
    answered = [each for each in found if isinstance(each, FoundTraces)]
    assert len(answered) == gathering.WAITING_MAX
    assert all(each.is_complete for each in answered)
