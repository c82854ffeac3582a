"""Names and numbers that identify things, as distinct types."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, NewType

from goqueue.model.errors import InvalidTopicName
from goqueue.model.security.tenants import SEPARATOR

TopicName = NewType("TopicName", str)
PartitionIndex = NewType("PartitionIndex", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
NodeId = NewType("NodeId", int)

NO_LEADER: Final = NodeId(-1)

# Kafka's limit: a partition's folder is `<topic>-<partition>`, and file names end at 255 bytes.
TOPIC_NAME_MAX_LENGTH = 249
_LEGAL_TENANT = re.compile(r"[a-z0-9-]+", re.ASCII)
_LEGAL_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


class TopicPartition(NamedTuple):
    topic: TopicName
    partition: PartitionIndex

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_partition(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(partition))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of the partitions of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


def check_topic_name(name: str) -> TopicName:
    """Return `name` as a topic name, or raise `InvalidTopicName` saying which rule it breaks.

    The name of a tenant and its separator may stand before it. Callers without a tenant do not get
    here with such names: `service/security/access.py` refuses them.
    """
    tenant, separator, _ = name.partition(SEPARATOR)
    prefix = tenant + separator if separator and _LEGAL_TENANT.fullmatch(tenant) else ""
    name = name[len(prefix) :]
    limit = TOPIC_NAME_MAX_LENGTH - len(prefix)
    if not name:
        raise InvalidTopicName(f"topic name is empty; give it 1 to {limit} characters")
    if name in (".", ".."):
        raise InvalidTopicName(f"topic name {name!r} is not allowed")
    if len(name) > limit:
        raise InvalidTopicName(f"topic name has {len(name)} characters; the limit is {limit}")
    if not _LEGAL_TOPIC_NAME.fullmatch(name):
        raise _illegal(name)
    return TopicName(prefix + name)


def check_no_separator(name: str) -> None:
    """For names as callers use them: only behind the doors does a tenant stand before a topic."""
    if SEPARATOR in name:
        raise _illegal(name)


def _illegal(name: str) -> InvalidTopicName:
    return InvalidTopicName(
        f"topic name {name!r} has a character outside a-z, A-Z, 0-9, '.', '_' and '-'"
    )
