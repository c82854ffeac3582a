"""A queue as SQS knows it: a topic, and what is kept of it besides.

Visibility timeout and retention are the topic's own settings, so that every door sees the same.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from goqueue.model.queues.attributes import (
    DEFAULTS,
    FIFO_DEFAULTS,
    FIFO_SUFFIX,
    parse_redrive_policy,
)
from goqueue.model.queues.fifo import DEDUPLICATION_MS
from goqueue.model.queues.settings import QueueSettings
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import TopicView

# The group of the queue engine that holds what SQS received and deleted.
SQS_GROUP: Final = "sqs"
# Attributes that are settings of the topic.
FROM_TOPIC: Final = frozenset({"VisibilityTimeout", "MessageRetentionPeriod"})
# SQS Developer Guide, "Message quotas": in flight per queue.
IN_FLIGHT_MAX: Final = 120_000


class QueueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a queue besides its topic. `topic_id` ties it to this one topic."""

    topic_id: UUID
    created_s: int
    modified_s: int
    # Those that are no topic settings and were set.
    attributes: dict[str, str] = {}
    tags: dict[str, str] = {}


class PurgeMark(msgspec.Struct, frozen=True, kw_only=True):
    """When a queue was emptied, and up to which number its messages were gone then."""

    topic_id: UUID
    at_ms: int
    up_to: int


class QueueCounts(NamedTuple):
    visible: int
    in_flight: int
    delayed: int


class SqsQueue:
    """One queue as it is now; replaced when its topic or its entry changes."""

    def __init__(
        self, topic: TopicView, config: TopicConfig, entry: QueueEntry | None, made_from: object
    ) -> None:
        self.name: str = topic.name
        self.topic = topic
        self.entry = entry
        self.made_from = made_from
        self.is_fifo = topic.name.endswith(FIFO_SUFFIX)
        self.attributes = dict(DEFAULTS)
        if self.is_fifo:
            self.attributes.update(FIFO_DEFAULTS)
        if entry is not None:
            self.attributes.update(entry.attributes)
        self.attributes.update(_from_topic(config, is_fifo=self.is_fifo))
        self.tags: Mapping[str, str] = {} if entry is None else entry.tags
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


def topic_settings(name: str, attributes: Mapping[str, str]) -> dict[str, str]:
    """The topic settings that attributes of this queue stand for."""
    settings: dict[str, str] = {}
    if "VisibilityTimeout" in attributes:
        # A lease cannot be shorter than this; a queue with 0 locks nothing.
        lease_ms = max(int(attributes["VisibilityTimeout"]) * 1000, 1)
        settings["queue.visibility.timeout.ms"] = str(lease_ms)
    if "MessageRetentionPeriod" in attributes:
        retention_ms = int(attributes["MessageRetentionPeriod"]) * 1000
        # A FIFO queue finds its deduplication ids again in the log.
        least_ms = DEDUPLICATION_MS if name.endswith(FIFO_SUFFIX) else 0
        settings["retention.ms"] = str(max(retention_ms, least_ms))
        # Retention drops whole segments; this hides single messages on time.
        settings["queue.ttl.ms"] = str(retention_ms)
    return settings


def _from_topic(config: TopicConfig, *, is_fifo: bool) -> dict[str, str]:
    """Reported within the limits that clients expect."""
    retention_s = 1_209_600 if config.retention_ms < 0 else config.retention_ms // 1000
    if is_fifo and config.queue_ttl_ms >= 0:
        retention_s = min(retention_s, config.queue_ttl_ms // 1000)
    return {
        "VisibilityTimeout": str(min(config.queue_visibility_timeout_ms // 1000, 43_200)),
        "MessageRetentionPeriod": str(min(max(retention_s, 60), 1_209_600)),
    }
