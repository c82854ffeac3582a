"""Changes of one key of the metadata that depend on what it held."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.storing import STEP_OPERATIONS_MAX
from goqueue.metadata.store import Compare, Delete, Get, MetadataStore, Op, Put
from goqueue.model.errors import Conflict
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature, first_use, first_use_in

# A lost race is rare and short; this many in a row means that something is wrong.
TRANSACTION_TRIES: Final = 20
# Between them: long enough for the image to show what another writer did.
AGAIN_S: Final = 0.05

Decide = Callable[[bytes | None], list[Op]]
# Where settings are kept.
EntryOf = Callable[[Mapping[str, str]], keys.Entry]
# From the settings that something has to those that it is to have; raises if it must not.
ChangeTexts = Callable[[Mapping[str, str]], Mapping[str, str]]


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

    async def change_all(
        self, of_keys: Sequence[str], decide: Callable[[Sequence[bytes | None]], list[Op]]
    ) -> None:
        """As `change`, of as many keys together as the store takes in a step."""
        for _ in range(TRANSACTION_TRIES):
            read = await self._store.transact([], [Get(key) for key in of_keys])
            found = [next(iter(each), None) for each in read.responses]
            ops = decide([None if each is None else each.value for each in found])
            unchanged = [
                Compare.unchanged(key, 0 if each is None else each.mod_revision)
                for key, each in zip(of_keys, found, strict=True)
            ]
            done = await self._store.transact(unchanged, ops)
            if done.succeeded:
                await self._follower.applied(done.revision)
                return
        raise Conflict(f"{of_keys[0]} and others are changed too often at the same time; try again")

    async def write(self, ops: Sequence[Op], feature: Feature) -> None:
        """Changes that depend on nothing, in as many steps as it takes: each of them is done as a
        whole, and somebody may see those before it."""
        await self.begin_use(feature)
        revision = 0
        for first in range(0, len(ops), STEP_OPERATIONS_MAX):
            step = ops[first : first + STEP_OPERATIONS_MAX]
            revision = (await self._store.transact([], step)).revision
        await self._follower.applied(revision)

    async def check(self, key: str, decide: Decide) -> None:
        """As `change`, but nothing is written."""
        found = (await self._store.get(key)).one
        decide(None if found is None else found.value)

    async def begin_use(self, feature: Feature) -> None:
        """Before anything is stored that earlier releases cannot read; `OlderBrokers` if there are
        such."""
        for entry in first_use(self._follower.image, feature):
            await self._follower.applied(await self._store.put(*entry))

    async def change_texts(
        self, entry: EntryOf, change: ChangeTexts, feature: Feature, *, validate_only: bool
    ) -> None:
        """Change the settings in an entry; it is there while there are any. Those that are newer
        than others are a `feature`."""
        key = entry({}).key

        def configure(value: bytes | None) -> list[Op]:
            texts = change(keys.decode_texts(key, value))
            level = first_use_in(self._follower.image, feature, texts)
            stored: list[Op] = [Put(*entry(texts))] if texts else [Delete(key)]
            return [*stored, *(Put(*each) for each in level)]

        if validate_only:
            await self.check(key, configure)
        else:
            await self.change(key, configure)
