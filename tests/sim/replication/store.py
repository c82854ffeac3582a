"""The metadata store of the simulation: the real keyspace, with values that are never encoded."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from goqueue.metadata.keyspace import Keyspace, LeaseGranted
from goqueue.metadata.store import Compare, Event, EventKind, KeyValue, LeaseId, Op
from goqueue.model.errors import LeaseNotFound


class Answer(NamedTuple):
    succeeded: bool
    revision: int
    found: tuple[KeyValue, ...]


class SimStore:
    def __init__(self) -> None:
        self.keyspace = Keyspace()
        # What watchers are told, in order; each broker keeps its place in it.
        self.events: list[Event] = []
        self.is_away = False
        self._last_lease = 0

    def grant(self) -> LeaseId:
        self._last_lease += 1
        lease = LeaseId(self._last_lease)
        self.keyspace.replay(LeaseGranted(lease, 1))
        return lease

    def transact(
        self, compares: Sequence[Compare], ops: Sequence[Op], otherwise: Sequence[Op]
    ) -> Answer:
        try:
            decision = self.keyspace.decide(compares, ops, otherwise)
        except LeaseNotFound:
            return Answer(False, self.keyspace.revision, ())
        if decision.record is not None:
            batch = self.keyspace.replay(decision.record)
            if batch is not None:
                self.events.extend(batch.events)
        found = () if decision.succeeded else tuple(kv for kvs in decision.responses for kv in kvs)
        return Answer(decision.succeeded, self.keyspace.revision, found)

    def expire(self, lease: LeaseId) -> None:
        if lease in self.keyspace.leases:
            batch = self.keyspace.replay(self.keyspace.decide_lease_end(lease))
            if batch is not None:
                self.events.extend(batch.events)

    def value(self, key: str) -> Any:
        found = self.keyspace.get(key)
        return found[0].value if found else None


def is_deletion(event: Event) -> bool:
    return event.kind is EventKind.DELETE
