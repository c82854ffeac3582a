"""The queues there are. Every topic is one; what SQS knows of it besides is kept as an entry.

Visibility timeout and retention are the topic's own settings, so both doors see the same. The
group `sqs` of the queue engine holds what was received and deleted.
"""

import asyncio
from collections.abc import Mapping
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.node import Node
from goqueue.doors.sqs.addresses import name_in_url
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_parameter, missing, no_such_queue
from goqueue.doors.sqs.queue_attributes import (
    DEFAULTS,
    FIFO_DEFAULTS,
    FIFO_SUFFIX,
    MESSAGE_SIZE_MAX_BYTES,
    REMOVED_WHEN,
    check_attributes,
    check_name,
    parse_redrive_allow_policy,
    parse_redrive_policy,
)
from goqueue.model.configs import ConfigChange
from goqueue.model.errors import TopicExists
from goqueue.model.queues.settings import QueueSettings
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import NewTopic, TopicView
from goqueue.state.metadata_keys import DoorKey

DOOR: Final = "sqs"
GROUP: Final = "sqs"
_ENTRY_PREFIX: Final = "queues/"

# SQS Developer Guide, "Message quotas": in flight per queue.
IN_FLIGHT_MAX: Final = 120_000
# A batch of the largest size with ten times the headers, attributes and framing around it.
BATCH_OVERHEAD_BYTES: Final = 65_536
# Topics of the size that all queues together are looked up in are cached.
CACHED_QUEUES_MAX: Final = 10_000


class QueueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a queue besides its topic. `topic_id` ties it to this one topic."""

    topic_id: UUID
    created_s: int
    modified_s: int
    # Those that are no topic settings and were set.
    attributes: dict[str, str] = {}
    tags: dict[str, str] = {}


class Queue:
    """One queue as it is now; replaced when its topic or its entry changes."""

    def __init__(
        self, topic: TopicView, config: TopicConfig, entry: QueueEntry | None, made_from: object
    ) -> None:
        self.name: str = topic.name
        self.topic = topic
        self.entry = entry
        self.made_from = made_from
        self.is_open = False
        self.is_fifo = topic.name.endswith(FIFO_SUFFIX)
        self.attributes = dict(DEFAULTS)
        if self.is_fifo:
            self.attributes.update(FIFO_DEFAULTS)
        if entry is not None:
            self.attributes.update(entry.attributes)
        self.attributes.update(_from_topic(config))
        self.delay_seconds = int(self.attributes["DelaySeconds"])
        self.wait_seconds = int(self.attributes["ReceiveMessageWaitTimeSeconds"])
        self.message_max_bytes = int(self.attributes["MaximumMessageSize"])
        self.is_content_deduplicated = self.attributes.get("ContentBasedDeduplication") == "true"
        self.is_group_scoped = self.attributes.get("DeduplicationScope") == "messageGroup"
        self.redrive = parse_redrive_policy(self.attributes.get("RedrivePolicy", ""))

    def settings(self, of_topic: QueueSettings) -> QueueSettings:
        """A queue without redrive policy delivers until somebody deletes."""
        return msgspec.structs.replace(
            of_topic,
            max_deliveries=self.redrive.max_receive_count if self.redrive else 0,
            has_dead_letters=self.redrive is not None,
            dead_letter_topic=self.redrive.target if self.redrive else "",
        )


class Catalogue:
    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._queues: dict[str, Queue] = {}
        # Entries are read, changed and stored: one at a time.
        self._changing = asyncio.Lock()

    def names(self) -> list[str]:
        topics = self._broker.image.topics.values()
        return sorted(topic.name for topic in topics if not topic.is_internal)

    def all(self) -> list[Queue]:
        return [self.find(name) for name in self.names()]

    def at(self, url: str | None) -> Queue:
        if not url:
            raise missing("QueueUrl")
        return self.find(name_in_url(url))

    def find(self, name: str) -> Queue:
        image = self._broker.image
        topic = image.topics.get(name)
        if topic is None or topic.is_internal:
            self._queues.pop(name, None)
            raise no_such_queue()
        stored = image.door_entries.get(DoorKey(DOOR, _ENTRY_PREFIX + name))
        known = self._queues.get(name)
        if known is not None and known.made_from == (topic, stored, image.broker_configs):
            return known
        entry = None if stored is None else msgspec.json.decode(stored, type=QueueEntry)
        if entry is not None and entry.topic_id != topic.id:
            # Left by a topic of the same name that was deleted through another door.
            entry = None
        config = self._broker.topic_config(topic)
        queue = Queue(topic, config, entry, (topic, stored, image.broker_configs))
        if len(self._queues) >= CACHED_QUEUES_MAX:
            self._queues.clear()
        self._queues[name] = queue
        return queue

    async def open(self, queue: Queue) -> None:
        """Make sure that the engine knows the queue with its settings as they are now."""
        if queue.is_open:
            return
        queues = self._broker.queues
        settings = queue.settings(queues.settings_of(queue.topic))
        await queues.open(GROUP, queue.name, start="earliest", settings=settings)
        queue.is_open = True

    async def create(
        self, name: str, attributes: Mapping[str, str], tags: Mapping[str, str]
    ) -> Queue:
        check_name(name, attributes)
        check_attributes(name, attributes, is_new=True)
        async with self._changing:
            self._check_redrive(name, attributes)
            if name not in self._broker.image.topics:
                await self._create_topic(name, attributes)
            queue = self.find(name)
            if queue.entry is None:
                # New, or a topic that becomes a queue of SQS as well.
                await self._change(queue, attributes, dict(tags))
            else:
                _check_same(queue, attributes)
        queue = self.find(name)
        await self.open(queue)
        return queue

    async def set_attributes(self, name: str, attributes: Mapping[str, str]) -> None:
        queue = self.find(name)
        check_attributes(name, attributes, is_new=False)
        if "FifoQueue" in attributes and not queue.is_fifo:
            raise SqsError(ErrorKind.INVALID_ATTRIBUTE_NAME, "Unknown Attribute FifoQueue.")
        async with self._changing:
            self._check_redrive(name, attributes)
            await self._change(self.find(name), attributes, None)
        await self.open(self.find(name))

    async def set_tags(self, name: str, tags: Mapping[str, str | None]) -> None:
        """Add or replace tags; None removes one."""
        async with self._changing:
            queue = self.find(name)
            merged: dict[str, str | None] = dict(queue.entry.tags) if queue.entry else {}
            merged.update(tags)
            kept = {tag: value for tag, value in merged.items() if value is not None}
            await self._change(queue, {}, kept)

    async def delete(self, name: str) -> None:
        async with self._changing:
            queue = self.find(name)
            await self._broker.keep_door_entry(DOOR, _ENTRY_PREFIX + queue.name, None)
            await self._broker.delete_topic(queue.name)

    async def _create_topic(self, name: str, attributes: Mapping[str, str]) -> None:
        partitions = self._broker.config.num_partitions
        config = _topic_settings({**DEFAULTS, **attributes})
        config["max.message.bytes"] = str(MESSAGE_SIZE_MAX_BYTES + BATCH_OVERHEAD_BYTES)
        config["queue.max.in.flight"] = str(-(-IN_FLIGHT_MAX // partitions))
        try:
            await self._broker.create_topic(
                NewTopic(name=name, partitions=partitions, config=config)
            )
        except TopicExists:
            # Another door was quicker; it becomes the queue's topic all the same.
            return

    async def _change(
        self, queue: Queue, attributes: Mapping[str, str], tags: dict[str, str] | None
    ) -> None:
        now_s = self._broker.clock_ms() // 1000
        entry = queue.entry or QueueEntry(
            topic_id=queue.topic.id, created_s=now_s, modified_s=now_s
        )
        own = dict(entry.attributes)
        for name, text in attributes.items():
            if REMOVED_WHEN.get(name) == text:
                own.pop(name, None)
            elif name not in _FROM_TOPIC:
                own[name] = text
        changed = _topic_settings(attributes)
        if any(queue.topic.config.get(name) != text for name, text in changed.items()):
            await self._broker.topics.alter_config(
                queue.name, [ConfigChange(name=name, value=text) for name, text in changed.items()]
            )
        entry = msgspec.structs.replace(
            entry,
            attributes=own,
            tags=entry.tags if tags is None else tags,
            modified_s=now_s if attributes else entry.modified_s,
        )
        stored = msgspec.json.encode(entry)
        await self._broker.keep_door_entry(DOOR, _ENTRY_PREFIX + queue.name, stored)

    def _check_redrive(self, name: str, attributes: Mapping[str, str]) -> None:
        """The dead-letter queue must be there, be of the same type, and allow it."""
        text = attributes.get("RedrivePolicy", "")
        policy = parse_redrive_policy(text)
        if policy is None:
            return
        try:
            target = self.find(policy.target)
        except SqsError:
            raise invalid_parameter(
                "RedrivePolicy", text, "Dead letter target does not exist."
            ) from None
        if target.is_fifo != name.endswith(FIFO_SUFFIX):
            raise invalid_parameter(
                "RedrivePolicy",
                text,
                "Dead-letter queue must be same type of queue as the source.",
            )
        allowed = parse_redrive_allow_policy(target.attributes.get("RedriveAllowPolicy", ""))
        if not allowed.allows(name):
            raise invalid_parameter(
                "RedrivePolicy",
                text,
                "Queue is not allowed to use the dead-letter queue: see its RedriveAllowPolicy.",
            )


_FROM_TOPIC: Final = frozenset({"VisibilityTimeout", "MessageRetentionPeriod"})


def _topic_settings(attributes: Mapping[str, str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    if "VisibilityTimeout" in attributes:
        # A lease cannot be shorter than this; a queue with 0 locks nothing.
        lease_ms = max(int(attributes["VisibilityTimeout"]) * 1000, 1)
        settings["queue.visibility.timeout.ms"] = str(lease_ms)
    if "MessageRetentionPeriod" in attributes:
        retention_ms = str(int(attributes["MessageRetentionPeriod"]) * 1000)
        settings["retention.ms"] = retention_ms
        # Retention drops whole segments; this hides single messages on time.
        settings["queue.ttl.ms"] = retention_ms
    return settings


def _from_topic(config: TopicConfig) -> dict[str, str]:
    """Reported within the limits that clients expect."""
    retention_s = 1_209_600 if config.retention_ms < 0 else config.retention_ms // 1000
    return {
        "VisibilityTimeout": str(min(config.queue_visibility_timeout_ms // 1000, 43_200)),
        "MessageRetentionPeriod": str(min(max(retention_s, 60), 1_209_600)),
    }


def _check_same(queue: Queue, attributes: Mapping[str, str]) -> None:
    for name, text in attributes.items():
        if queue.attributes.get(name, REMOVED_WHEN.get(name)) != text:
            raise SqsError(
                ErrorKind.QUEUE_NAME_EXISTS,
                "A queue already exists with the same name and a different value for attribute "
                f"{name}",
            )
