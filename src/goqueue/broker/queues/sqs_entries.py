"""What is kept for SQS in the metadata store: of its queues and of move tasks.

The keys are `/doors/sqs/<name>`, from when the door kept them itself: data folders have them so.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Compare, Delete, MetadataStore, Op, Put
from goqueue.model.errors import NotLeader
from goqueue.model.names import TopicPartition
from goqueue.state.metadata_keys import DoorKey, door_key, partition_key

_DOOR: Final = "sqs"


class SqsEntries:
    def __init__(
        self, store: MetadataStore, follower: MetadataFollower, changes: KeyChanges
    ) -> None:
        self._store = store
        self._follower = follower
        self._changes = changes

    def get(self, name: str) -> bytes | None:
        return self._follower.image.door_entries.get(DoorKey(_DOOR, name))

    def under(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Entries whose names begin so, with the rest of each name."""
        for key, value in self._follower.image.door_entries.items():
            if key.door == _DOOR and key.name.startswith(prefix):
                yield key.name.removeprefix(prefix), value

    async def change(self, name: str, decide: Callable[[bytes | None], bytes]) -> None:
        """Make the new value from the old one; once more should somebody else be quicker."""
        key = door_key(_DOOR, name)
        await self._changes.change(key, lambda value: [Put(key, decide(value))])

    async def keep(
        self, changes: Mapping[str, bytes | None], *, led: TopicPartition | None = None
    ) -> None:
        """Store all changes together; None removes. Returns once `get` shows them.

        `led`: whoever leads this partition decides about them. `NotLeader` if it has changed since
        this broker last heard of it; then nothing is stored, and it has heard by now.
        """
        compares: list[Compare] = []
        if led is not None:
            view = self._follower.image.topics[led.topic].partitions[led.partition]
            compares = [Compare.unchanged(partition_key(*led), view.revision)]
        operations: list[Op] = []
        for name, value in changes.items():
            key = door_key(_DOOR, name)
            operations.append(Delete(key) if value is None else Put(key, value))
        done = await self._store.transact(compares, operations)
        await self._follower.applied(done.revision)
        if not done.succeeded:
            raise NotLeader(f"who leads {led} has changed; try again")
