"""Changes of one key of the metadata that depend on what it held."""

from collections.abc import Callable
from typing import Final

from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Compare, MetadataStore, Op
from goqueue.model.errors import Conflict

# A lost race is rare and short; this many in a row means that something is wrong.
TRANSACTION_TRIES: Final = 20

Decide = Callable[[bytes | None], list[Op]]


class KeyChanges:
    def __init__(self, store: MetadataStore, follower: MetadataFollower) -> None:
        self._store = store
        self._follower = follower

    async def change(self, key: str, decide: Decide) -> None:
        """Read a key, decide, write if nobody else wrote in between; else again."""
        for _ in range(TRANSACTION_TRIES):
            found = (await self._store.get(key)).one
            ops = decide(None if found is None else found.value)
            revision = 0 if found is None else found.mod_revision
            done = await self._store.transact([Compare.unchanged(key, revision)], ops)
            if done.succeeded:
                await self._follower.applied(done.revision)
                return
        raise Conflict(f"{key} is changed too often at the same time; try again")

    async def check(self, key: str, decide: Decide) -> None:
        """As `change`, but nothing is written."""
        found = (await self._store.get(key)).one
        decide(None if found is None else found.value)
