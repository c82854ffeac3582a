"""Carries out what the controller decided, as long as it is the controller."""

from collections.abc import Iterator, Sequence
from typing import Final

from goqueue.metadata.in_flight import in_flight
from goqueue.metadata.store import Compare, Get, MetadataStore, Op, Put
from goqueue.model.errors import NotController
from goqueue.model.names import TopicPartition
from goqueue.model.replication import Member
from goqueue.state import metadata_keys as keys
from goqueue.state.controller.planning import Admit, ChangePartition

# etcd takes 128 comparisons in a transaction: this broker's right, a version for each partition,
# and the registrations that are relied on.
COMPARISONS_MAX: Final = 120


class Deposed(NotController):
    """Another broker is the controller now."""


class Acting:
    """`revision` is that of the last change: what was decided before it is out of date."""

    def __init__(self, store: MetadataStore, controller_revision: int) -> None:
        self._store = store
        self._mine = Compare.unchanged(keys.CONTROLLER_KEY, controller_revision)
        self.revision = 0

    async def change(self, changes: Sequence[ChangePartition]) -> set[TopicPartition]:
        """Partitions that have a leader again come first: clients wait for them.

        Each change compares all that it builds on, and no two are of the same partition: in which
        order they come true makes no difference. On return, or an error, none is under way.
        Returns those that somebody else changed meanwhile: they are decided again.
        """
        refused: set[TopicPartition] = set()
        await in_flight(
            _transactions(sorted(changes, key=_urgency)),
            lambda together: self._change_together(together, refused),
        )
        return refused

    async def admit(self, admission: Admit) -> None:
        key = keys.node_key(admission.node)
        await self._transact(
            [
                Compare.unchanged(key, admission.revision),
                Compare.unchanged(keys.broker_key(admission.node), admission.record.broker_epoch),
            ],
            [Put(*keys.node_entry(admission.node, admission.record))],
        )

    async def _change_together(
        self, changes: Sequence[ChangePartition], refused: set[TopicPartition]
    ) -> None:
        """One that is out of date holds up no other: the rest is asked for again."""
        while changes:
            puts = [Put(*keys.partition_entry(*one.partition, one.state)) for one in changes]
            stale = await self._transact(_compares(changes), puts)
            if not stale:
                return
            refused.update(one.partition for one in changes if not stale.isdisjoint(_keys_of(one)))
            changes = [one for one in changes if one.partition not in refused]

    async def _transact(self, compares: Sequence[Compare], ops: Sequence[Op]) -> set[str]:
        """Returns the keys that are not as they were compared; none if it succeeded.

        They are read after it was refused, which is seldom: revisions only move on, so what was
        another one then is another one now.
        """
        compared = [self._mine, *compares]
        stale: set[str] = set()
        while not stale:
            done = await self._store.transact(compared, ops)
            if done.succeeded:
                self.revision = max(self.revision, done.revision)
                break
            read = await self._store.transact((), [Get(one.key) for one in compared])
            # None of them, if one that was missing, as it should be, had been made and is gone.
            stale = {
                compare.key
                for compare, found in zip(compared, read.responses, strict=True)
                if compare.value != (found[0].mod_revision if found else 0)
            }
        if keys.CONTROLLER_KEY in stale:
            raise Deposed("another broker is the controller now")
        return stale


def _urgency(change: ChangePartition) -> tuple[int, tuple[Member, ...]]:
    """New leaders before in-sync sets that only become smaller. Those that rely on the same brokers
    stand together, so that a transaction has few registrations to compare, and room for more."""
    return 0 if change.relies_on and change.state.has_leader else 1, change.relies_on


def _compares(changes: Sequence[ChangePartition]) -> list[Compare]:
    members = {member for change in changes for member in change.relies_on}
    return [
        *(
            Compare.unchanged(keys.partition_key(*change.partition), change.revision)
            for change in changes
        ),
        *(Compare.unchanged(keys.broker_key(m.node), m.broker_epoch) for m in sorted(members)),
    ]


def _keys_of(change: ChangePartition) -> list[str]:
    return [compare.key for compare in _compares([change])]


def _transactions(changes: Sequence[ChangePartition]) -> Iterator[list[ChangePartition]]:
    """As many at once as the store takes."""
    together: list[ChangePartition] = []
    members: set[Member] = set()
    for change in changes:
        if len(together) + 1 + len(members.union(change.relies_on)) > COMPARISONS_MAX:
            yield together
            together, members = [], set()
        together.append(change)
        members.update(change.relies_on)
    if together:
        yield together
