"""aiokafka: producer and assigned consumer."""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_what_is_produced_is_consumed(
    bootstrap: str, topic: str, compression: str | None
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=compression, acks="all"
    ) as producer:
        sends = [
            await producer.send(topic, b"%d" % n, key=b"k", partition=0, headers=[("h", b"x")])
            for n in range(500)
        ]
        assert [(await sent).offset for sent in sends] == list(range(500))
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        part = TopicPartition(topic, 0)
        consumer.assign([part])
        await consumer.seek_to_beginning(part)
        found = [await consumer.getone() for _ in range(500)]
        assert [record.value for record in found] == [b"%d" % n for n in range(500)]
        assert found[0].headers == (("h", b"x"),)
        assert await consumer.end_offsets([part]) == {part: 500}
