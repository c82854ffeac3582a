"""The audit of all brokers in one topic, made when there is the first entry for it."""

from collections.abc import Sequence

from goqueue.broker.own_grants import OwnWork, own_state, own_write
from goqueue.broker.publishing.publishing import Publishing
from goqueue.broker.topics.topics import TopicAdmin
from goqueue.model.records import NewRecord
from goqueue.model.topics import AUDIT_TOPIC

# In one, entries are in the order in which they came.
_PARTITIONS = 1


class AuditTopic:
    def __init__(self, topics: TopicAdmin, publishing: Publishing, retention_ms: int) -> None:
        self._topics = topics
        self._publishing = publishing
        self._settings = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}

    async def write(self, entries: Sequence[bytes]) -> None:
        """As often as it is tried: the topic may have been made by another broker."""
        await self._topics.ensure_internal(
            own_state(AUDIT_TOPIC), partitions=_PARTITIONS, config=self._settings
        )
        records = [NewRecord(key=None, value=entry) for entry in entries]
        await self._publishing.store_audit(own_write(AUDIT_TOPIC, OwnWork.AUDIT), records)
