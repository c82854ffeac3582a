"""Checks of records against schemas: large batches, and ids that change what they stand for."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from goqueue.broker.node import Node
from goqueue.model.errors import InvalidRecord
from goqueue.model.records import COMPRESSION_CODES, NewRecord, encode_records
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import Mode, NewSchema
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

TEXT = '{"type": "object", "properties": {"id": {"type": "string"}}}'
NUMBER = TEXT.replace('"string"', '"number"')
RECORDS = 20_000


@pytest.fixture
async def broker(open_broker: OpenBroker) -> AsyncIterator[Node]:
    async with open_broker() as opened:
        config = {"schema.validation.value": "content"}
        await BrokerService(opened).topics.create(
            ANYONE, NewTopic(name="orders", partitions=1, config=config)
        )
        yield opened


async def produce(broker: Node, *values: bytes, compression: str = "uncompressed") -> None:
    records = [NewRecord(value=value) for value in values]
    code = COMPRESSION_CODES[compression]
    batch = bytes(encode_records(records, now_ms=1, compression=code))
    await BrokerService(broker).log.produce(ANYONE, "orders", 0, batch, acks=1, timeout_ms=1_000)


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
async def test_others_get_their_turn_while_a_large_batch_is_checked(
    broker: Node, compression: str
) -> None:
    await BrokerService(broker).schemas.register(
        ANYONE, "orders-value", NewSchema(SchemaType.JSON, TEXT)
    )
    await produce(broker, b'{"id": "a"}')
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(other())
    values = [b'{"id": "a"}'] * (RECORDS - 1) + [b'{"id": 1}']
    with pytest.raises(InvalidRecord, match="does not fit schema 1") as refused:
        await produce(broker, *values, compression=compression)
    task.cancel()
    assert refused.value.record_index == RECORDS - 1
    assert turns > 1


async def test_an_id_that_is_imported_again_is_checked_by_its_new_schema(broker: Node) -> None:
    schemas = BrokerService(broker).schemas
    await schemas.set_mode(ANYONE, None, Mode.IMPORT)
    await schemas.register(ANYONE, "orders-value", NewSchema(SchemaType.JSON, TEXT, schema_id=7))
    await produce(broker, b'\x00\x00\x00\x00\x07{"id": "a"}')
    for is_permanent in (False, True):
        await schemas.delete_subject(ANYONE, "orders-value", is_permanent=is_permanent)
    with pytest.raises(InvalidRecord, match="no schema with id 7"):
        await produce(broker, b'\x00\x00\x00\x00\x07{"id": 1}')
    await schemas.register(ANYONE, "orders-value", NewSchema(SchemaType.JSON, NUMBER, schema_id=7))
    await produce(broker, b'\x00\x00\x00\x00\x07{"id": 1}')
