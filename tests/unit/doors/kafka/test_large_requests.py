"""Requests of very many elements are decoded in slices, and come out as small ones do."""

import asyncio
from typing import Any

import pytest
from kio.index import load_request_schema

from goqueue.doors.kafka.exchange import Exchange
from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.large_requests import LARGE_ELEMENTS
from goqueue.doors.kafka.operation import Operation
from goqueue.doors.kafka.request_limits import RequestLimits
from goqueue.doors.kafka.wire.fields import fields_of
from goqueue.doors.kafka.wire.reading import Malformed, TooManyElements
from goqueue.doors.kafka.wire.request_header import read_request_header
from goqueue.doors.kafka.wire.schema import Schema, load_schema
from goqueue.model.broker_config import BrokerConfig
from tests.hostile.kafka_requests import arrays_of, frame

pytestmark = pytest.mark.anyio

LENGTH_BYTES = 4
MANY = 1_000
LIMITS = RequestLimits(BrokerConfig(), OPERATIONS)


def _exchange(operation: Operation, version: int, repeat: int, at: str) -> Exchange:
    sent = memoryview(frame(operation, version, {}, repeat, at))[LENGTH_BYTES:]
    return Exchange(read_request_header(sent), operation, sent)


def _schema(operation: Operation, version: int) -> Schema:
    return load_schema(operation.api_key, version, operation.max_version)


def _whole(operation: Operation, version: int, sent: memoryview) -> Any:
    schema = _schema(operation, version)
    header = read_request_header(sent)
    position = header.body_position(sent, schema.has_tagged_request_header)
    return schema.read_request(sent, position)


def _stepwise(operation: Operation, version: int, sent: memoryview) -> Any:
    schema = _schema(operation, version)
    header = read_request_header(sent)
    position = header.body_position(sent, schema.has_tagged_request_header)
    steps = schema.read_request_stepwise(sent, position)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        # Somebody else's small request comes between.
        with pytest.raises(Malformed):
            schema.read_request(memoryview(b""), 0, 1)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda each: each.name)
def test_in_steps_the_same_is_read_as_at_once(operation: Operation) -> None:
    for version in range(operation.min_version, operation.max_version + 1):
        for at in ("", *arrays_of(operation)):
            sent = memoryview(frame(operation, version, {}, 3, at))[LENGTH_BYTES:]
            whole, _ = _whole(operation, version, sent)
            stepwise, _ = _stepwise(operation, version, sent)
            assert stepwise == whole
            assert type(stepwise) is type(whole)


def test_every_array_of_more_than_numbers_is_read_in_steps() -> None:
    """Those in tagged fields would not be."""

    def look(entity: Any) -> None:
        for field in fields_of(entity):
            if field.tag is not None:
                assert not field.is_array
            if field.entity is not None:
                if field.tag is not None:
                    assert not any(inner.is_array for inner in fields_of(field.entity))
                look(field.entity)

    for operation in OPERATIONS.values():
        for version in range(operation.min_version, operation.max_version + 1):
            look(load_request_schema(operation.api_key, version))


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("Produce", "partition_data"),
        ("Fetch", "topics"),
        ("ListOffsets", "partitions"),
        ("StreamsGroupHeartbeat", "subtopologies"),
    ],
)
async def test_reading_stops_where_a_request_turns_out_large(name: str, at: str) -> None:
    operation = next(each for each in OPERATIONS.values() if each.name == name)
    exchange = _exchange(operation, operation.max_version, MANY, at)
    exchange.read(LIMITS)
    assert exchange.is_read
    assert not exchange.is_decoded
    assert exchange.elements > LARGE_ELEMENTS
    assert not exchange.overlaps
    assert exchange.request is None
    await exchange.decode_in_slices(LIMITS)
    assert exchange.is_decoded
    assert exchange.elements >= MANY
    assert exchange.request is not None


async def test_a_request_of_the_most_elements_is_decoded_in_many_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that goes a tenth of a slice with each step."""
    operation = next(each for each in OPERATIONS.values() if each.name == "ListOffsets")
    most = LIMITS.elements_of(operation) - 1
    exchange = _exchange(operation, operation.max_version, most, "partitions")
    ticks = iter(range(10 * most))
    monkeypatch.setattr("goqueue.pace.perf_counter", lambda: next(ticks) * 0.0005)
    exchange.read(LIMITS)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    await exchange.decode_in_slices(LIMITS)
    counting.cancel()
    assert turns > most / 20


async def test_too_many_are_refused_in_slices_too() -> None:
    operation = next(each for each in OPERATIONS.values() if each.name == "ListOffsets")
    exchange = _exchange(operation, operation.max_version, 20_001, "partitions")
    exchange.read(LIMITS)
    with pytest.raises(TooManyElements, match="more than 20000 elements"):
        await exchange.decode_in_slices(LIMITS)


async def test_a_large_request_that_ends_early_is_malformed() -> None:
    operation = next(each for each in OPERATIONS.values() if each.name == "ListOffsets")
    sent = frame(operation, operation.max_version, {}, MANY, "partitions")[LENGTH_BYTES:-40]
    exchange = Exchange(read_request_header(memoryview(sent)), operation, memoryview(sent))
    exchange.read(LIMITS)
    assert not exchange.is_decoded
    with pytest.raises(Malformed):
        await exchange.decode_in_slices(LIMITS)


def test_a_small_request_is_decoded_at_once() -> None:
    operation = next(each for each in OPERATIONS.values() if each.name == "Fetch")
    # A topic has elements, too.
    exchange = _exchange(operation, operation.max_version, LARGE_ELEMENTS // 10, "topics")
    exchange.read(LIMITS)
    assert exchange.is_decoded
    assert exchange.request is not None
