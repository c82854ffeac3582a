"""The metadata store of the simulation: the real keyspace, with values that are never encoded."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from goqueue.metadata.keyspace import FIRST_REVISION, Keyspace, LeaseGranted, Snapshot
from goqueue.metadata.store import NO_LEASE, Compare, Event, KeyValue, LeaseId, Op
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

    def begin_with(self, values: Mapping[str, tuple[object, LeaseId]]) -> None:
        """As if they had been written one after the other, before anybody watched."""
        kvs: list[KeyValue] = []
        for revision, (key, (value, lease)) in enumerate(values.items(), FIRST_REVISION + 1):
            kvs.append(KeyValue(key, value, revision, revision, 1, lease))  # type: ignore[arg-type]
        leases = sorted({kv.lease for kv in kvs} - {NO_LEASE})
        granted = tuple(LeaseGranted(lease, 1) for lease in leases)
        self._last_lease = len(leases)
        self.keyspace = Keyspace(
            Snapshot(FIRST_REVISION + len(kvs), LeaseId(self._last_lease), granted, tuple(kvs))
        )

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
        if decision.succeeded or not decision.responses:
            return Answer(decision.succeeded, self.keyspace.revision, ())
        return Answer(False, self.keyspace.revision, decision.responses[0])

    def expire(self, lease: LeaseId) -> None:
        if lease in self.keyspace.leases:
            batch = self.keyspace.replay(self.keyspace.decide_lease_end(lease))
            if batch is not None:
                self.events.extend(batch.events)

    def value(self, key: str) -> Any:
        found = self.keyspace.get(key)
        return found[0].value if found else None
