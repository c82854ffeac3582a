"""Ring and queries against a plain list; summaries and journeys by example."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.tracing.query import (
    SpanQuery,
    distinct,
    in_order,
    journey,
    summarise,
)
from goqueue.model.tracing.spans import Event, EventName, MessagePlace, Span, Status, TraceContext
from goqueue.state.tracing.contexts import (
    ContextTable,
    DeliveryTable,
    RecentOffsets,
    Taken,
)
from goqueue.state.tracing.ring import SpanRing

places = st.builds(MessagePlace, st.sampled_from(["a", "b"]), st.integers(0, 1), st.integers(0, 3))
spans = st.builds(
    Span,
    trace_id=st.sampled_from(["1" * 32, "2" * 32, "3" * 32]),
    span_id=st.integers(0, 2**64 - 1).map("{:016x}".format),
    parent_id=st.none(),
    event=st.sampled_from(get_args(EventName)),
    topic=st.sampled_from(["a", "b"]),
    partition=st.integers(0, 1),
    offset=st.none() | st.integers(0, 3),
    time_us=st.integers(0, 20),
    duration_us=st.integers(0, 5),
    status=st.sampled_from(get_args(Status)),
    group=st.none() | st.sampled_from(["g", "h"]),
    delayed_id=st.none() | st.sampled_from(["x", "y"]),
    linked=st.none() | places,
)
queries = st.builds(
    SpanQuery,
    trace_id=st.none() | st.sampled_from(["1" * 32, "9" * 32]),
    topic=st.none() | st.sampled_from(["a", "c"]),
    partition=st.none() | st.integers(0, 2),
    offset=st.none() | st.integers(0, 3),
    from_us=st.none() | st.integers(0, 20),
    to_us=st.none() | st.integers(0, 20),
    event=st.none() | st.sampled_from(get_args(EventName)),
    status=st.none() | st.sampled_from(get_args(Status)),
    group=st.none() | st.just("g"),
)


def test_every_event_has_its_name() -> None:
    assert list(get_args(EventName)) == [event.value for event in Event]


@given(st.lists(spans, max_size=30), st.integers(1, 10))
def test_the_ring_keeps_the_newest(given_spans: list[Span], size: int) -> None:
    ring = SpanRing(size)
    for span in given_spans:
        ring.add(span)
    assert list(ring.newest_first()) == given_spans[::-1][:size]
    assert (len(ring), ring.recorded) == (min(size, len(given_spans)), len(given_spans))
    assert ring.size == size


@given(spans, queries)
def test_a_query_matches_what_it_says(span: Span, query: SpanQuery) -> None:
    at = [(span.topic, span.partition, span.offset)]
    if span.linked is not None:
        at.append((span.linked.topic, span.linked.partition, span.linked.offset))
    wanted = (query.topic, query.partition, query.offset)
    is_there = any(
        all(want is None or want == have for want, have in zip(wanted, place, strict=True))
        for place in at
    )
    fields = ("trace_id", "event", "status", "group")
    is_alike = all(getattr(query, field) in (None, getattr(span, field)) for field in fields)
    is_in_time = (query.from_us is None or query.from_us <= span.time_us) and (
        query.to_us is None or span.time_us < query.to_us
    )
    assert query.matches(span) == (is_there and is_alike and is_in_time)


@given(st.lists(spans, max_size=20))
def test_summaries_tell_all_traces_newest_first(given_spans: list[Span]) -> None:
    found = summarise(given_spans)
    assert {each.trace_id for each in found} == {span.trace_id for span in given_spans}
    assert [each.started_us for each in found] == sorted(
        (each.started_us for each in found), reverse=True
    )
    for each in found:
        own = [span for span in given_spans if span.trace_id == each.trace_id]
        assert each.spans == len(own)
        assert each.started_us == min(span.time_us for span in own)
        assert each.started_us + each.duration_us == max(span.end_us for span in own)
        assert (each.status == "failed") == any(span.status == "failed" for span in own)


@given(st.lists(spans, max_size=15), places)
def test_a_journey_is_all_that_hangs_together(given_spans: list[Span], place: MessagePlace) -> None:
    found = journey(given_spans, place)
    assert found == in_order(found)
    rest = [span for span in given_spans if span not in found]
    reached = {place, *(s.place for s in found), *(s.linked for s in found)} - {None}
    ids = {s.delayed_id for s in found} - {None}
    for span in rest:
        assert span.place not in reached
        assert span.linked not in reached
        assert span.delayed_id not in ids


def test_spans_are_in_the_order_in_which_things_happened() -> None:
    def span(event: Event, time_us: int, duration_us: int = 0) -> Span:
        return Span(
            "1" * 32, f"{time_us}{event}", None, event.value, "t", 0, 0, time_us, duration_us
        )

    received = span(Event.PUBLISH_RECEIVED, 10, 9)
    stored = span(Event.PUBLISH_PERSISTED, 12, 3)
    fetched = span(Event.CONSUME_FETCHED, 30)
    acked = span(Event.CONSUME_ACKED, 30, 5)
    story = [received, stored, fetched, acked]
    assert in_order(reversed(story)) == story
    assert distinct([*story, *story]) == story


class TestContextTable:
    @given(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 8), st.booleans()), max_size=40),
        st.integers(1, 6),
    )
    def test_adopted_offsets_are_those_that_are_kept(
        self, steps: list[tuple[int, int, bool]], size: int
    ) -> None:
        table = ContextTable(size)
        adopted: set[tuple[int, int]] = set()
        order: list[tuple[int, int]] = []
        for key, offset, adopts in steps:
            context = TraceContext(f"{key}", f"{offset}")
            if adopts:
                table.adopt(key, offset, context)
                adopted.add((key, offset))
            else:
                table.keep(key, offset, context)
            order = [each for each in order if each != (key, offset)] + [(key, offset)]
            for gone in order[: -size or None] if len(order) > size else []:
                adopted.discard(gone)
            order = order[-size:]
        assert len(table) == len(order)
        for key in (0, 1):
            kept = sorted(offset for at, offset in adopted if at == key)
            assert table.adopted(key, 0, 100) == kept
            assert table.adopted(key, 2, 5) == [o for o in kept if 2 <= o < 5]
        for key, offset in order:
            assert table.get(key, offset) == (f"{key}", f"{offset}", None)
        assert table.get(7, 7) is None


def test_deliveries_are_forgotten_when_they_end_or_are_too_many() -> None:
    table = DeliveryTable(2)
    taken = Taken(1, "c", 1)
    for offset in range(3):
        table.take(0, offset, "g", taken)
    assert table.get(0, 0, "g") is None
    assert table.end(0, 1, "g") == taken
    assert table.end(0, 1, "g") is None
    assert table.get(0, 2, "g") == taken


@given(st.lists(st.integers(0, 9)), st.integers(0, 9), st.integers(0, 9))
def test_recent_offsets_are_those_of_a_plain_list(reads: list[int], start: int, end: int) -> None:
    recent = RecentOffsets(4)
    for offset in reads:
        recent.add(offset)
    assert recent.between(start, end) == sorted({at for at in reads[-4:] if start <= at < end})
