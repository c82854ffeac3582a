"""librdkafka reads a topic whose first segments have lost all their records to compaction."""

import asyncio
import time
from pathlib import Path

from confluent_kafka import Consumer

from goqueue.broker.node import Node
from goqueue.model.broker_config import broker_config
from goqueue.testing import ServerProcess
from tests.unit.broker.test_data import make_emptied

# librdkafka doubles its limit for each answer without messages, from the one set here to 2^30.
EMPTY_SEGMENTS = 60
PATIENCE_S = 60


def test_librdkafka_does_not_take_empty_batches_for_large_messages(tmp_path: Path) -> None:
    async def prepare() -> None:
        broker = await Node.open(broker_config({"data.dir": str(tmp_path / "data")}))
        await make_emptied(broker, rows=2, empty=EMPTY_SEGMENTS)
        await broker.close()

    asyncio.run(prepare())
    with ServerProcess(tmp_path / "data") as server:
        consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "fetch.message.max.bytes": 1_000,
            }
        )
        consumer.subscribe(["t"])
        found: list[object] = []
        give_up_at = time.monotonic() + PATIENCE_S
        while len(found) < 2 and time.monotonic() < give_up_at:
            message = consumer.poll(0.1)
            if message is not None:
                found.append(message.error() or message.value())
        consumer.close()
    assert found == [b"message 0", b"message 1"]
