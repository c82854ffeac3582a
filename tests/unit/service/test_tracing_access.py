"""Who may see what happened to messages, and the broker's figures."""

from collections.abc import AsyncIterator

import pytest

from goqueue.broker.node import Node
from goqueue.broker.tracing.recorder import CALLER, new_span_id, now_us
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.model.errors import ClusterAccessDenied, TopicAccessDenied
from goqueue.model.rights import Verb
from goqueue.model.topics import NewTopic
from goqueue.model.tracing.query import SpanQuery
from goqueue.model.tracing.spans import Event, MessagePlace, Span
from goqueue.service.broker_service import BrokerService
from goqueue.service.tracing import TracingService
from tests.callers import ANYONE
from tests.rules import Grant, Granted, cluster, topic
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

SECRET = "canary-topic"
TRACE = "ab" * 16


def span(at: MessagePlace, linked: MessagePlace | None = None, trace: str = TRACE) -> Span:
    return Span(
        trace_id=trace,
        span_id=new_span_id(),
        parent_id=None,
        event=Event.DLQ_ROUTED.value,
        topic=at.topic,
        partition=at.partition,
        offset=at.offset,
        time_us=now_us(),
        linked=linked,
    )


@pytest.fixture
async def broker(open_broker: OpenBroker) -> AsyncIterator[Node]:
    """A message went from `open` to the secret topic, where another one was as well."""
    async with open_broker() as opened:
        for name in ("open", SECRET):
            await BrokerService(opened).topics.create(ANYONE, NewTopic(name=name, partitions=1))
        there = MessagePlace(SECRET, 0, 0)
        for each in (
            span(MessagePlace("open", 0, 0), linked=there),
            span(there),
            span(MessagePlace(SECRET, 0, 1), trace="cd" * 16),
        ):
            opened.tracing._recorder.record(each)
        yield opened


def allowed(broker: Node, *grants: Grant) -> TracingService:
    return BrokerService(broker, Granted(*grants)).tracing


async def test_without_rights_nothing_is_seen(broker: Node) -> None:
    nobody = allowed(broker)
    assert (await nobody.recent(ANYONE, 10)).traces == []
    assert (await nobody.search(ANYONE, SpanQuery(topic=SECRET), 10)).traces == []
    assert (await nobody.trace(ANYONE, TRACE)).spans == []
    with pytest.raises(TopicAccessDenied):
        await nobody.of_message(ANYONE, MessagePlace(SECRET, 0, 0))
    with pytest.raises(TopicAccessDenied):
        nobody.traceparent(ANYONE, SECRET, 0, 0)
    with pytest.raises(ClusterAccessDenied):
        await nobody.figures(ANYONE)


async def test_what_happened_in_other_topics_is_left_out(broker: Node) -> None:
    reader = allowed(broker, topic("open", Verb.READ))
    [summary] = (await reader.recent(ANYONE, 10)).traces
    assert (summary.trace_id, summary.topic, summary.spans) == (TRACE, "open", 1)
    for found in (
        await reader.trace(ANYONE, TRACE),
        await reader.of_message(ANYONE, MessagePlace("open", 0, 0)),
    ):
        [only] = found.spans
        assert (only.topic, only.linked) == ("open", None)
    # Nor is it found by where its message went.
    assert (await reader.search(ANYONE, SpanQuery(topic=SECRET), 10)).traces == []

    everything = BrokerService(broker).tracing
    assert len((await everything.trace(ANYONE, TRACE)).spans) == 2


async def test_spans_name_who_asked() -> None:
    kafka = Caller(principal=ANONYMOUS, door=Door.KAFKA, client_id="billing")
    for caller, name in (
        (kafka, "billing"),
        (Caller(principal=ANONYMOUS, door=Door.KAFKA), None),
        (ANYONE, "http"),
        (Caller(principal=ANONYMOUS, door=Door.SQS), "sqs"),
    ):
        TracingService.asked_by(caller)
        assert CALLER.get() == name


async def test_figures_are_for_those_who_may_describe_the_cluster(broker: Node) -> None:
    with pytest.raises(ClusterAccessDenied):
        await BrokerService(broker, Granted()).measuring.figures(ANYONE, groups_max=1, queues_max=1)
    granted = Granted(cluster(Verb.DESCRIBE))
    service = BrokerService(broker, granted)
    figures = await service.measuring.figures(ANYONE, groups_max=1, queues_max=1)
    assert figures.cluster.brokers == 1
