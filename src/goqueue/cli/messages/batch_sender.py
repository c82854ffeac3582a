"""Fills record batches per partition and sends them: many messages at a time, not one by one."""

import asyncio
import random
import time
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaProducer

from goqueue.cli.failures import CommandFailed
from goqueue.cli.messages.record_text import OutgoingMessage
from goqueue.cli.messages.send_progress import SendProgress
from goqueue.model.partitioner import partition_for_key


class BatchSender:
    """A message with a key goes where Kafka's clients send that key. Others share a partition
    until its batch is full, as in KIP-480, so that batches are few and large."""

    def __init__(
        self, producer: AIOKafkaProducer, topic: str, partition_count: int, progress: SendProgress
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition_count = partition_count
        self._progress = progress
        self._open: dict[int, Any] = {}
        self._sticky = random.randrange(partition_count)

    async def send(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send what came in together; nothing waits for more."""
        now_ms = time.time_ns() // 1_000_000
        for message in messages:
            partition = self._partition(message)
            if not self._append(partition, message, now_ms):
                await self._send_batch(partition)
                if message.key is None and message.partition is None:
                    partition = self._sticky
                self._append(partition, message, now_ms)
        for partition in list(self._open):
            await self._send_batch(partition)

    def _partition(self, message: OutgoingMessage) -> int:
        if message.partition is not None:
            if message.partition >= self._partition_count:
                raise CommandFailed(
                    f"topic {self._topic!r} has no partition {message.partition}; "
                    f"its partitions are 0 to {self._partition_count - 1}"
                )
            return message.partition
        if message.key is not None:
            return partition_for_key(message.key, self._partition_count)
        return self._sticky

    def _append(self, partition: int, message: OutgoingMessage, now_ms: int) -> bool:
        """False when the partition's batch is full; an empty one takes a message of any size."""
        batch = self._open.get(partition)
        if batch is None:
            batch = self._open[partition] = self._producer.create_batch()
        timestamp_ms = now_ms if message.timestamp_ms is None else message.timestamp_ms
        appended = batch.append(
            timestamp=timestamp_ms,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
        )
        return appended is not None

    async def _send_batch(self, partition: int) -> None:
        batch = self._open.pop(partition)
        count = batch.record_count()
        future = await self._producer.send_batch(batch, self._topic, partition=partition)

        def answered(done: "asyncio.Future[Any]") -> None:
            self._progress.answered(done, partition, count)

        future.add_done_callback(answered)
        self._sticky = random.randrange(self._partition_count)
