"""Carries out what the controller decided, as long as it is the controller."""

from collections.abc import Iterator, Sequence
from typing import Final

from goqueue.metadata.store import Compare, Get, KeyValue, MetadataStore, Op, Put
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
        self._controller_revision = controller_revision
        self.revision = 0

    async def change(self, changes: Sequence[ChangePartition]) -> set[TopicPartition]:
        """Partitions that have a leader again come first: clients wait for them.

        Returns those that somebody else changed meanwhile: they are decided again.
        """
        refused: set[TopicPartition] = set()
        for together in _transactions(sorted(changes, key=_urgency)):
            await self._change_together(together, refused)
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
        puts = [Put(*keys.partition_entry(*change.partition, change.state)) for change in changes]
        if await self._transact(_compares(changes), puts):
            return
        if len(changes) == 1:
            refused.add(changes[0].partition)
            return
        # The others must not wait for the one that changed.
        half = len(changes) // 2
        await self._change_together(changes[:half], refused)
        await self._change_together(changes[half:], refused)

    async def _transact(self, compares: Sequence[Compare], ops: Sequence[Op]) -> bool:
        done = await self._store.transact([self._mine, *compares], ops, [Get(keys.CONTROLLER_KEY)])
        if done.succeeded:
            self.revision = done.revision
        else:
            self._check_still_controller(done.responses[0])
        return done.succeeded

    def _check_still_controller(self, found: tuple[KeyValue, ...]) -> None:
        if not found or found[0].mod_revision != self._controller_revision:
            raise Deposed("another broker is the controller now")


def _urgency(change: ChangePartition) -> int:
    return 0 if change.state.has_leader else 1


def _compares(changes: Sequence[ChangePartition]) -> list[Compare]:
    members = {member for change in changes for member in change.relies_on}
    return [
        *(
            Compare.unchanged(keys.partition_key(*change.partition), change.revision)
            for change in changes
        ),
        *(Compare.unchanged(keys.broker_key(m.node), m.broker_epoch) for m in sorted(members)),
    ]


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
