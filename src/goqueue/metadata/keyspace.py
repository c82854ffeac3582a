"""The keys of a store in memory: decide what a transaction does, then replay its record.

Pure: no clock, file or asyncio. Only `replay` changes anything, for new records and on recovery.
"""

import operator
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from goqueue.metadata.store import (
    NO_LEASE,
    Compare,
    CompareOp,
    CompareTarget,
    Delete,
    DeletePrefix,
    Event,
    EventKind,
    Get,
    GetPrefix,
    KeyValue,
    LeaseId,
    Op,
    Put,
    WatchBatch,
)
from goqueue.model.errors import InvalidRequest, LeaseNotFound, MetadataCorrupt

# etcd's: an empty store is at revision 1, so 0 can mean "never".
FIRST_REVISION: Final = 1

# Up to here single insertions (a memmove each) are cheaper than a new list of all keys.
_INSERTIONS_MAX: Final = 10

_COMPARE: Final[dict[CompareOp, Callable[[Any, Any], bool]]] = {
    CompareOp.EQUAL: operator.eq,
    CompareOp.NOT_EQUAL: operator.ne,
    CompareOp.LESS: operator.lt,
    CompareOp.GREATER: operator.gt,
}


class Change(NamedTuple):
    """`value` None deletes the key."""

    key: str
    value: bytes | None
    lease: LeaseId = NO_LEASE


class Committed(msgspec.Struct, frozen=True, array_like=True, tag="commit"):
    """One revision's changes. `ended_lease` goes with them; 0 where none does."""

    revision: int
    changes: tuple[Change, ...]
    ended_lease: LeaseId = NO_LEASE


class LeaseGranted(msgspec.Struct, frozen=True, array_like=True, tag="lease"):
    lease: LeaseId
    ttl_ms: int


class LeaseEnded(msgspec.Struct, frozen=True, array_like=True, tag="end"):
    """A lease without keys is gone, which changes no revision."""

    lease: LeaseId


Record = Committed | LeaseGranted | LeaseEnded


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    revision: int
    last_lease: LeaseId
    leases: tuple[LeaseGranted, ...]
    kvs: tuple[KeyValue, ...]


EMPTY: Final = Snapshot(FIRST_REVISION, NO_LEASE, (), ())


class Decision(NamedTuple):
    """`record` is None where nothing changes."""

    succeeded: bool
    record: Committed | None
    responses: tuple[tuple[KeyValue, ...], ...]


class Keyspace:
    def __init__(self, snapshot: Snapshot = EMPTY) -> None:
        self.revision = snapshot.revision
        self.last_lease = snapshot.last_lease
        self._kvs = {kv.key: kv for kv in snapshot.kvs}
        self._ordered = sorted(self._kvs)
        self._lease_ttls_ms = {granted.lease: granted.ttl_ms for granted in snapshot.leases}
        self._lease_keys: dict[LeaseId, set[str]] = {lease: set() for lease in self._lease_ttls_ms}
        for kv in snapshot.kvs:
            if kv.lease != NO_LEASE:
                self._lease_keys[kv.lease].add(kv.key)

    # --- reading --------------------------------------------------------------------------

    def get(self, key: str) -> tuple[KeyValue, ...]:
        kv = self._kvs.get(key)
        return () if kv is None else (kv,)

    def get_prefix(self, prefix: str) -> tuple[KeyValue, ...]:
        return tuple(self._kvs[key] for key in self._keys_under(prefix))

    @property
    def leases(self) -> dict[LeaseId, int]:
        """Live leases and their time to live in ms."""
        return dict(self._lease_ttls_ms)

    def lease_ttl_ms(self, lease: LeaseId) -> int:
        try:
            return self._lease_ttls_ms[lease]
        except KeyError:
            raise LeaseNotFound(f"lease {lease} does not exist or has expired") from None

    def snapshot(self) -> Snapshot:
        """A copy that later replays leave alone; cheap, since keys and values are shared."""
        leases = tuple(LeaseGranted(lease, ttl) for lease, ttl in self._lease_ttls_ms.items())
        return Snapshot(self.revision, self.last_lease, leases, tuple(self._kvs.values()))

    def _keys_under(self, prefix: str) -> Sequence[str]:
        if not prefix:
            return tuple(self._ordered)
        start = end = bisect_left(self._ordered, prefix)
        while end < len(self._ordered) and self._ordered[end].startswith(prefix):
            end += 1
        return self._ordered[start:end]

    # --- deciding -------------------------------------------------------------------------

    def decide(
        self, compares: Sequence[Compare], success: Sequence[Op], failure: Sequence[Op]
    ) -> Decision:
        _check_writes(success)
        _check_writes(failure)
        succeeded = all(map(self._holds, compares))
        revision = self.revision + 1
        written: dict[str, KeyValue | None] = {}
        responses = tuple(
            [self._run(op, written, revision) for op in (success if succeeded else failure)]
        )
        if not written:
            return Decision(succeeded, None, responses)
        changes = [
            Change(key, None) if kv is None else Change(key, kv.value, kv.lease)
            for key, kv in written.items()
        ]
        return Decision(succeeded, Committed(revision, tuple(changes)), responses)

    def decide_lease_end(self, lease: LeaseId) -> Record:
        self.lease_ttl_ms(lease)
        keys = sorted(self._lease_keys[lease])
        if not keys:
            return LeaseEnded(lease)
        return Committed(self.revision + 1, tuple(Change(key, None) for key in keys), lease)

    def _holds(self, compare: Compare) -> bool:
        key, target, op, value = compare
        by_value = target is CompareTarget.VALUE
        if isinstance(value, bytes) is not by_value:
            raise InvalidRequest(f"{compare}: compares {target.value} with another type")
        kv = self._kvs.get(key)
        if by_value:
            return kv is not None and _COMPARE[op](kv.value, value)
        if kv is None:
            actual = 0
        elif target is CompareTarget.MOD_REVISION:
            # By far the most frequent, and an Enum's `value` is slow to read.
            actual = kv.mod_revision
        else:
            actual = getattr(kv, target.value)
        return actual == value if op is CompareOp.EQUAL else _COMPARE[op](actual, value)

    def _run(
        self, op: Op, written: dict[str, KeyValue | None], revision: int
    ) -> tuple[KeyValue, ...]:
        match op:
            case Get(key):
                return self._seen((key,), written)
            case GetPrefix(prefix):
                keys = {key for key in written if key.startswith(prefix)}
                return self._seen(sorted(keys.union(self._keys_under(prefix))), written)
            case Put(key, value, lease):
                if lease != NO_LEASE:
                    self.lease_ttl_ms(lease)
                before = self._kvs.get(key)
                written[key] = _next(before, key, value, lease, revision)
                return () if before is None else (before,)
            case Delete(key):
                removed = self._seen((key,), written)
            case DeletePrefix(prefix):
                removed = self._seen(self._keys_under(prefix), written)
        written.update((kv.key, None) for kv in removed)
        return removed

    def _seen(
        self, keys: Iterable[str], written: dict[str, KeyValue | None]
    ) -> tuple[KeyValue, ...]:
        found = (written[key] if key in written else self._kvs.get(key) for key in keys)
        return tuple(kv for kv in found if kv is not None)

    # --- replaying ------------------------------------------------------------------------

    def replay(self, record: Record) -> WatchBatch | None:
        match record:
            case LeaseGranted(lease=lease, ttl_ms=ttl_ms):
                self.last_lease = lease
                self._lease_ttls_ms[lease] = ttl_ms
                self._lease_keys[lease] = set()
                return None
            case LeaseEnded(lease=lease):
                self._forget_lease(lease)
                return None
            case Committed():
                return self._replay_commit(record)

    def _replay_commit(self, record: Committed) -> WatchBatch:
        if record.revision != self.revision + 1:
            raise MetadataCorrupt(
                f"metadata record has revision {record.revision}, expected {self.revision + 1}"
            )
        self.revision = record.revision
        events = tuple(map(self._apply, record.changes))
        self._reorder(events)
        if record.ended_lease != NO_LEASE:
            self._forget_lease(record.ended_lease)
        return WatchBatch(record.revision, events)

    def _apply(self, change: Change) -> Event:
        key, value, lease = change
        before = self._kvs.get(key)
        if before is not None and before.lease != NO_LEASE:
            self._lease_keys[before.lease].discard(key)
        if value is None:
            self._kvs.pop(key, None)
            gone = KeyValue(key, b"", 0, self.revision, 0)
            return Event(EventKind.DELETE, gone, before)
        kv = _next(before, key, value, lease, self.revision)
        self._kvs[key] = kv
        if lease != NO_LEASE:
            self._lease_keys[lease].add(key)
        return Event(EventKind.PUT, kv, before)

    def _reorder(self, events: Sequence[Event]) -> None:
        moved = [
            event for event in events if (event.prev is None) != (event.kind is EventKind.DELETE)
        ]
        if len(moved) > _INSERTIONS_MAX:
            self._ordered = _merged(self._ordered, moved)
            return
        for event in moved:
            if event.kind is EventKind.PUT:
                insort(self._ordered, event.kv.key)
            else:
                del self._ordered[bisect_left(self._ordered, event.kv.key)]

    def _forget_lease(self, lease: LeaseId) -> None:
        del self._lease_ttls_ms[lease]
        del self._lease_keys[lease]


def _merged(ordered: list[str], moved: Sequence[Event]) -> list[str]:
    """In whole pieces between the keys that come and go: sorting a hundred thousand keys anew would
    take tens of milliseconds, for each transaction."""
    merged: list[str] = []
    start = 0
    for event in sorted(moved, key=lambda each: each.kv.key):
        key = event.kv.key
        at = bisect_left(ordered, key, start)
        merged += ordered[start:at]
        if event.kind is EventKind.PUT:
            merged.append(key)
            start = at
        else:
            start = at + 1
    merged += ordered[start:]
    return merged


def _next(
    before: KeyValue | None, key: str, value: bytes, lease: LeaseId, revision: int
) -> KeyValue:
    if before is None:
        return KeyValue(key, value, revision, revision, 1, lease)
    return KeyValue(key, value, before.create_revision, revision, before.version + 1, lease)


def _check_writes(ops: Sequence[Op]) -> None:
    """etcd's rule: what a transaction leaves behind must not hang on the order of its writes."""
    put: set[str] = set()
    if len(ops) == 1 and isinstance(ops[0], Put) and ops[0].key:
        return
    for op in ops:
        if isinstance(op, Put):
            if not op.key:
                raise InvalidRequest("key: must not be empty")
            if op.key in put:
                raise InvalidRequest(f"key {op.key!r}: put twice in one transaction")
            put.add(op.key)
    for op in ops:
        if isinstance(op, Delete):
            clashes = op.key in put
        else:
            clashes = isinstance(op, DeletePrefix) and any(k.startswith(op.prefix) for k in put)
        if clashes:
            raise InvalidRequest(f"{op}: covers a key that the same transaction puts")
