"""Quotas at Kafka's door: described, altered, told in answers, and held by not reading."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.rights import ConfigurableCluster
from goqueue.model.security.quotas import QuotaChange, QuotaEntity, QuotaKind
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

EXACT, DEFAULT, SPECIFIED = range(3)
# The name that the wire client gives itself.
TEST = QuotaEntity(client_id="test")
NOTHING = timedelta(0)


class Clock:
    """By which quotas fill up again. It stands still unless a test moves it, for a busy machine may
    take seconds between two requests."""

    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


@pytest.fixture(autouse=True)
def clock(broker: Node) -> Clock:
    broker.quotas.now_ms = found = Clock()
    return found


@pytest.fixture(autouse=True)
async def _topic(broker: Node) -> None:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=1))


async def hold(broker: Node, entity: QuotaEntity = TEST, **values: float | None) -> None:
    changes = [QuotaChange(entity, values)]
    assert await broker.quotas.alter(ConfigurableCluster("kafka-cluster"), changes) == [None]


def entry(*entity: tuple[str, str | None], **values: float | None) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in values.items()
        ],
    }


async def alter(client: WireClient, *entries: dict[str, Any], **more: Any) -> list[ErrorCode]:
    answer = await client.call("alter_client_quotas", entries=entries, **more)
    return [each.error_code for each in answer.entries]


async def describe(
    client: WireClient, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    wanted = [
        {"entity_type": kind, "match_type": match, "match": name}
        for kind, match, name in components
    ]
    answer = await client.call("describe_client_quotas", components=wanted, strict=strict)
    assert answer.error_code is ErrorCode.none
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries
    }


async def produce(client: WireClient, size: int, *, acks: int = 1) -> Any:
    batch = bytes(encode_records([NewRecord(value=b"x" * size)], now_ms=1_000))
    partition = {"index": 0, "records": batch}
    topic = {"name": "a", "partition_data": [partition]}
    expected = client.send("produce", 9, acks=acks, timeout=1_000, topic_data=[topic])
    return await client.receive(*expected) if acks else None


async def fetch(client: WireClient, offset: int = 0, **more: Any) -> Any:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    words: dict[str, Any] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, **more}
    return await client.call(
        "fetch", 11, topics=[{"topic": "a", "partitions": [partition]}], **words
    )


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_altered_and_described(client: WireClient, version: int) -> None:
    answer = await client.call(
        "alter_client_quotas",
        version,
        entries=[entry(("user", "alice"), ("client-id", None), producer_byte_rate=5.0)],
    )
    assert [each.error_code for each in answer.entries] == [ErrorCode.none]
    answer = await client.call("describe_client_quotas", version, components=(), strict=False)
    [found] = answer.entries
    assert [(each.entity_type, each.entity_name) for each in found.entity] == [
        ("user", "alice"),
        ("client-id", None),
    ]
    assert [(each.key, each.value) for each in found.values] == [("producer_byte_rate", 5.0)]


async def test_a_filter_finds_what_it_says(client: WireClient) -> None:
    await alter(
        client,
        entry(("user", "alice"), producer_byte_rate=1.0),
        entry(("user", None), producer_byte_rate=2.0),
        entry(("user", "alice"), ("client-id", "app"), producer_byte_rate=3.0),
        entry(("client-id", "app"), request_percentage=4.5),
        entry(("ip", "10.0.0.1"), connection_creation_rate=5.0),
    )
    alice, other = (("user", "alice"),), (("user", None),)
    both = (("user", "alice"), ("client-id", "app"))
    app, address = (("client-id", "app"),), (("ip", "10.0.0.1"),)
    assert set(await describe(client)) == {alice, other, both, app, address}
    assert set(await describe(client, strict=True)) == set()
    assert set(await describe(client, ("user", EXACT, "alice"))) == {alice, both}
    assert set(await describe(client, ("user", EXACT, "alice"), strict=True)) == {alice}
    assert set(await describe(client, ("user", DEFAULT, None))) == {other}
    assert set(await describe(client, ("client-id", SPECIFIED, None))) == {both, app}
    assert set(await describe(client, ("user", SPECIFIED, None), ("client-id", EXACT, "app"))) == {
        both
    }
    assert await describe(client, ("ip", SPECIFIED, None)) == {
        address: {"connection_creation_rate": 5.0}
    }


async def test_the_last_value_taken_away_ends_the_quota(client: WireClient) -> None:
    await alter(client, entry(("user", "alice"), producer_byte_rate=1.0, request_percentage=2.0))
    assert await alter(client, entry(("user", "alice"), producer_byte_rate=None)) == [
        ErrorCode.none
    ]
    assert await describe(client) == {(("user", "alice"),): {"request_percentage": 2.0}}
    await alter(client, entry(("user", "alice"), request_percentage=None))
    assert await describe(client) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        entry(("user", "alice"), no_such_rate=1.0),
        entry(("user", "alice"), connection_creation_rate=1.0),
        entry(("ip", "10.0.0.1"), producer_byte_rate=1.0),
        entry(("user", "alice"), producer_byte_rate=-1.0),
        entry(("user", "alice"), producer_byte_rate=1.5),
        entry(("user", "alice"), request_percentage=float("nan")),
        entry(("user", "alice"), ("ip", "10.0.0.1"), producer_byte_rate=1.0),
        entry(("ip", "somewhere"), connection_creation_rate=1.0),
        entry(("colour", "red"), producer_byte_rate=1.0),
        entry(("user", ""), producer_byte_rate=1.0),
        entry(("user", "a"), ("user", "b"), producer_byte_rate=1.0),
        entry(producer_byte_rate=1.0),
    ],
)
async def test_what_kafka_refuses_is_refused_by_itself(
    client: WireClient, wrong: dict[str, Any]
) -> None:
    right = entry(("user", "bob"), producer_byte_rate=1.0)
    assert await alter(client, wrong, right) == [ErrorCode.invalid_request, ErrorCode.none]
    assert set(await describe(client)) == {(("user", "bob"),)}


async def test_only_validated_is_not_done(client: WireClient) -> None:
    change = entry(("user", "bob"), producer_byte_rate=1.0)
    assert await alter(client, change, validate_only=True) == [ErrorCode.none]
    assert await alter(client, change, change) == [ErrorCode.invalid_request] * 2
    assert await describe(client) == {}


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "x")], ErrorCode.invalid_request),
        ([("colour", EXACT, "x")], ErrorCode.unsupported_version),
        ([("user", EXACT, None)], ErrorCode.invalid_request),
        ([("user", DEFAULT, "x")], ErrorCode.invalid_request),
        ([("user", 7, None)], ErrorCode.invalid_request),
        ([("user", EXACT, "x"), ("user", EXACT, "y")], ErrorCode.invalid_request),
        ([("user", EXACT, "x"), ("ip", DEFAULT, None)], ErrorCode.invalid_request),
    ],
)
async def test_filters_that_make_no_sense(
    client: WireClient, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    wanted = [
        {"entity_type": kind, "match_type": match, "match": name}
        for kind, match, name in components
    ]
    answer = await client.call("describe_client_quotas", components=wanted, strict=False)
    assert (answer.error_code, answer.entries) == (code, None)


async def test_produce_is_answered_with_the_time_to_wait_and_then_not_read(
    broker: Node, client: WireClient
) -> None:
    await hold(broker, producer_byte_rate=10_000)
    assert (await produce(client, 5_000)).throttle_time == NOTHING
    began = asyncio.get_running_loop().time()
    told = (await produce(client, 35_000)).throttle_time
    answered = asyncio.get_running_loop().time()
    assert timedelta(milliseconds=3_000) < told < timedelta(milliseconds=3_200)
    assert answered - began < told.total_seconds()
    await client.call("api_versions", 0)
    waited = asyncio.get_running_loop().time() - began
    assert waited >= told.total_seconds() * 0.95


async def test_a_producer_that_wants_no_answers_is_held_as_well(
    broker: Node, client: WireClient
) -> None:
    await hold(broker, producer_byte_rate=10_000)
    began = asyncio.get_running_loop().time()
    for _ in range(3):
        await produce(client, 5_000, acks=0)
    await client.call("api_versions", 0)
    assert asyncio.get_running_loop().time() - began >= 0.45


async def test_another_client_is_not_held(
    broker: Node, client: WireClient, door: KafkaDoor
) -> None:
    await hold(broker, QuotaEntity(client_id="somebody-else"), producer_byte_rate=1)
    for _ in range(3):
        assert (await produce(client, 5_000)).throttle_time == NOTHING
    assert door.connections


async def test_a_quota_that_is_lifted_is_lifted_for_open_connections(
    broker: Node, client: WireClient
) -> None:
    await hold(broker, producer_byte_rate=10_000)
    assert (await produce(client, 12_000)).throttle_time > NOTHING
    await hold(broker, producer_byte_rate=None)
    assert (await produce(client, 90_000)).throttle_time == NOTHING


async def test_fetch_gets_no_more_at_once_than_its_quota_and_then_nothing(
    broker: Node, client: WireClient, door: KafkaDoor, clock: Clock
) -> None:
    for _ in range(10):
        await produce(client, 1_000)
    await hold(broker, consumer_byte_rate=4_000)
    first = await fetch(client)
    [part] = first.responses[0].partitions
    assert 3_000 < len(part.records) <= 4_500
    second = await fetch(client)
    assert len(second.responses[0].partitions[0].records) > 3_000
    assert second.throttle_time > timedelta(milliseconds=500)
    # On another connection, while the first is held.
    other = await WireClient.connect(*door.address)
    third = await fetch(other)
    assert third.error_code is ErrorCode.none
    assert third.responses == ()
    assert third.throttle_time > NOTHING
    # It comes again when it may.
    clock.now_ms += 1_000
    fourth = await fetch(other)
    assert len(fourth.responses[0].partitions[0].records) > 3_000
    other.close()


async def test_a_fetch_session_goes_on_after_an_empty_answer(
    broker: Node, client: WireClient, door: KafkaDoor, clock: Clock
) -> None:
    await produce(client, 1_000)
    begun = await fetch(client, session_id=0, session_epoch=0)
    assert begun.session_id
    await hold(broker, consumer_byte_rate=1_000)
    # Another connection of the same client is in debt.
    other = await WireClient.connect(*door.address)
    await produce(client, 1_200)
    await fetch(other, session_epoch=-1)
    held = await client.call(
        "fetch",
        11,
        max_wait=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=begun.session_id,
        session_epoch=1,
        topics=(),
    )
    assert (held.error_code, held.responses) == (ErrorCode.none, ())
    assert held.session_id == begun.session_id
    assert held.throttle_time > NOTHING
    clock.now_ms += 10_000
    again = await client.call(
        "fetch",
        11,
        max_wait=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=begun.session_id,
        session_epoch=2,
        topics=(),
    )
    assert again.error_code is ErrorCode.none
    assert again.responses[0].partitions[0].records
    other.close()


async def test_who_keeps_the_loop_busy_is_held(broker: Node, client: WireClient) -> None:
    await hold(broker, request_percentage=0.05)
    told = NOTHING
    for _ in range(100):
        told = max(told, (await client.call("metadata", 12, topics=None)).throttle_time)
        if told > timedelta(milliseconds=20):
            return
    pytest.fail("a hundred requests took less than a millisecond")


async def create(client: WireClient, version: int, *names: str) -> tuple[list[ErrorCode], Any]:
    topics = [{"name": name, "num_partitions": 3, "replication_factor": 1} for name in names]
    answer = await client.call("create_topics", version, topics=topics, timeout=1_000)
    return [each.error_code for each in answer.topics], answer.throttle_time


async def test_partitions_beyond_the_quota_are_refused_or_waited_for(
    broker: Node, client: WireClient
) -> None:
    await hold(broker, controller_mutation_rate=0.5)
    # Eleven seconds' worth at once: five and a half.
    codes, told = await create(client, 6, "one", "two", "three")
    assert codes == [ErrorCode.none, ErrorCode.none, ErrorCode.throttling_quota_exceeded]
    assert NOTHING < told <= timedelta(seconds=1)
    assert "three" not in broker.image.topics
    codes, told = await create(client, 5, "four")
    assert codes == [ErrorCode.none]
    assert told > NOTHING


@pytest.fixture
async def strangers(door: KafkaDoor) -> AsyncIterator[list[WireClient]]:
    opened: list[WireClient] = []
    yield opened
    for each in opened:
        each.close()


async def test_connections_beyond_the_rate_are_served_later(
    broker: Node, door: KafkaDoor, strangers: list[WireClient]
) -> None:
    await hold(broker, QuotaEntity(ip="127.0.0.1"), connection_creation_rate=4)
    began = asyncio.get_running_loop().time()
    for _ in range(6):
        strangers.append(await WireClient.connect(*door.address))
    await asyncio.gather(*(each.call("api_versions", 0) for each in strangers))
    assert asyncio.get_running_loop().time() - began >= 0.45
    assert broker.quotas.ledger.throttled_ms[QuotaKind.CONNECTIONS] > 0
