"""The interface every metadata store has, with etcd v3's semantics.

A store has one revision that grows by one with every transaction that changes something; all
changes of a transaction share it. Answers are linearizable: whatever a read or a transaction
shows is durable, and a later read sees it or something newer.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, NewType, Protocol, Self

import msgspec

from goqueue.model.measuring.histograms import Histogram

LeaseId = NewType("LeaseId", int)

NO_LEASE = LeaseId(0)


class KeyValue(NamedTuple):
    """A key as it stands: `version` counts puts since it was created, from 1."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: LeaseId = NO_LEASE


class CompareTarget(Enum):
    VERSION = "version"
    CREATE_REVISION = "create_revision"
    MOD_REVISION = "mod_revision"
    VALUE = "value"


class CompareOp(Enum):
    EQUAL = "=="
    NOT_EQUAL = "!="
    LESS = "<"
    GREATER = ">"


class Compare(NamedTuple):
    """A condition on one key. A missing key has version and revisions 0, and no value at all:

    a comparison of its value is false whatever the operator.
    """

    key: str
    target: CompareTarget
    op: CompareOp
    value: int | bytes

    @classmethod
    def missing(cls, key: str) -> "Compare":
        return cls(key, CompareTarget.VERSION, CompareOp.EQUAL, 0)

    @classmethod
    def exists(cls, key: str) -> "Compare":
        return cls(key, CompareTarget.VERSION, CompareOp.GREATER, 0)

    @classmethod
    def unchanged(cls, key: str, mod_revision: int) -> "Compare":
        """The key was last written at `mod_revision`; 0 means that it is missing."""
        return cls(key, CompareTarget.MOD_REVISION, CompareOp.EQUAL, mod_revision)


class _Operation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """With a tag, by which it is known again at the other end of a socket (`over_socket`)."""


class Put(_Operation, frozen=True, tag="put"):
    """Write a key. It leaves the lease it had, and joins `lease` unless that is 0."""

    key: str
    value: bytes
    lease: LeaseId = NO_LEASE


class Delete(_Operation, frozen=True, tag="delete"):
    key: str


class DeletePrefix(_Operation, frozen=True, tag="delete-prefix"):
    prefix: str


class Get(_Operation, frozen=True, tag="get"):
    key: str


class GetPrefix(_Operation, frozen=True, tag="get-prefix"):
    prefix: str


Op = Put | Delete | DeletePrefix | Get | GetPrefix


class Read(NamedTuple):
    """What a read found, ordered by key, and the store's revision at that moment."""

    kvs: tuple[KeyValue, ...]
    revision: int

    @property
    def one(self) -> KeyValue | None:
        return self.kvs[0] if self.kvs else None


class TxnResult(NamedTuple):
    """`responses` has one entry for each operation of the branch that ran: what a get found,

    what a delete removed, what a put replaced.
    """

    succeeded: bool
    revision: int
    responses: tuple[tuple[KeyValue, ...], ...]


class EventKind(Enum):
    PUT = "put"
    DELETE = "delete"


class Event(NamedTuple):
    """One change. A deleted key's `kv` has no value, and the deletion's revision.

    `prev` is what the key was, where a store has it at hand. etcd has not: it would look it up for
    each key and each broker that watches, which takes ten times as long as the change itself.
    """

    kind: EventKind
    kv: KeyValue
    prev: KeyValue | None = None


class WatchBatch(NamedTuple):
    """All changes of one revision under the watched prefix, never empty."""

    revision: int
    events: tuple[Event, ...]

    @property
    def changes(self) -> tuple[tuple[str, bytes | None, int], ...]:
        """Key, new value (None where it was deleted) and revision, as `MetadataImage` takes it."""
        return tuple(
            (event.kv.key, event.kv.value if event.kind is EventKind.PUT else None, self.revision)
            for event in self.events
        )


class Watch(Protocol):
    """Batches in order of revision, none missed and none twice. Ends when the store is closed.

    Cancelling a wait for the next batch loses nothing. One task at a time may wait.
    """

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> WatchBatch: ...

    async def aclose(self) -> None: ...


class KeptLease(Protocol):
    """A lease that is renewed until `stop`; it is not revoked by that."""

    @property
    def renewed_at_s(self) -> float:
        """When the store last said so, by `time.monotonic`."""

    def stop(self) -> None: ...


class MetadataStore(Protocol):
    """Cancelling a call leaves open whether it took effect, as a lost connection does."""

    @property
    def unavailable_reason(self) -> str | None:
        """Why it answers `MetadataUnavailable` now; it comes back by itself."""

    @property
    def latencies(self) -> Histogram:
        """How long changes took, and in a cluster reads as well."""

    async def get(self, key: str) -> Read: ...

    async def get_prefix(self, prefix: str) -> Read: ...

    async def transact(
        self,
        compares: Sequence[Compare],
        success_ops: Sequence[Op],
        failure_ops: Sequence[Op] = (),
    ) -> TxnResult:
        """Run `success_ops` if all of `compares` hold, else `failure_ops`: all or nothing.

        A get sees what operations before it in the list did. A key may be written only once in
        a list: two puts, or a put and a delete that covers it, are refused (`InvalidRequest`).
        """
        ...

    def watch(self, prefix: str, from_revision: int) -> Watch:
        """Changes from `from_revision` on, itself included: read, then watch `revision + 1`.

        Waiting for the next batch raises `CompactedRevision` where history is gone.
        """
        ...

    async def grant_lease(self, ttl_ms: int) -> LeaseId: ...

    async def keep_alive(self, lease: LeaseId) -> int:
        """Start the lease's time again and return it in ms; `LeaseNotFound` if it is gone."""
        ...

    def keep_lease(
        self,
        lease: LeaseId,
        ttl_ms: int,
        *,
        stall_max_ms: int,
        on_lost: Callable[[], None],
    ) -> KeptLease:
        """Renew it again and again, unless the event loop stands still for `stall_max_ms`."""
        from goqueue.metadata.lease_renewal import LeaseRenewal  # a node of one has no leases

        del stall_max_ms  # a loop that stands still renews nothing
        return LeaseRenewal(lambda: self.keep_alive(lease), ttl_ms, on_lost)

    async def revoke(self, lease: LeaseId) -> None:
        """End the lease now. Its keys go in one revision, as they do when it expires."""
        ...

    async def close(self) -> None: ...

    async def put(self, key: str, value: bytes, lease: LeaseId = NO_LEASE) -> int:
        """Write one key, whatever was there. Returns the revision."""
        return (await self.transact((), (Put(key, value, lease),))).revision

    async def delete(self, key: str) -> KeyValue | None:
        """Remove one key. Returns what it was, None if it was not there."""
        result = await self.transact((), (Delete(key),))
        return result.responses[0][0] if result.responses[0] else None
