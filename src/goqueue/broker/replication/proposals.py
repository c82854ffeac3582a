"""Asks the metadata store for the changes of in-sync sets that leaders here propose.

Each change compares the partition's version, this broker's registration and that of who joins; so
it comes true only if nothing that it builds on has changed. An answer that does not come leaves a
proposal open: it is asked for again, and until its fate is known the leader counts both sets.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from goqueue.broker.background import ended
from goqueue.broker.partitions.partition import Partition
from goqueue.metadata.in_flight import in_flight
from goqueue.metadata.store import Compare, Get, KeyValue, MetadataStore, Put
from goqueue.model.errors import GoQueueError
from goqueue.model.replication import Member
from goqueue.pace import Pace
from goqueue.state import metadata_keys as keys
from goqueue.state.replication.leading import Proposal

logger = logging.getLogger(__name__)

# etcd takes 128 comparisons in a transaction: one for each partition, and for each registration.
TOGETHER_MAX: Final = 50
# So often within the time that a follower may lag, who lags is looked for.
LOOKS_PER_LAG: Final = 8
LOOK_MIN_S: Final = 0.1


class Due(NamedTuple):
    partition: Partition
    proposal: Proposal

    @property
    def key(self) -> str:
        return keys.partition_key(*self.partition.name)


class Proposals:
    def __init__(
        self,
        store: MetadataStore,
        led: Callable[[], Iterable[Partition]],
        me: Callable[[], Member | None],
        *,
        staying: Callable[[Member], int],
        clock_ms: Callable[[], int],
        lag_max_ms: int,
    ) -> None:
        """`staying`: the revision at which the cluster's record of a broker says that it is not
        about to leave; 0 where it is, or is not there, and then it cannot join."""
        self._store = store
        self._led = led
        self._me = me
        self._staying = staying
        self._clock_ms = clock_ms
        self._look_s = max(LOOK_MIN_S, lag_max_ms / 1_000 / LOOKS_PER_LAG)
        # Where a follower has caught up: it need not wait for the next look at all.
        self._soon: dict[Partition, None] = {}
        self._wanted = asyncio.Event()
        self._look_at = 0.0
        self._task: asyncio.Task[None] | None = None
        # How often all partitions were looked at.
        self.looks = 0
        # In-sync sets that became smaller and larger, for who measures.
        self.shrunk = 0
        self.grown = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="changes of in-sync sets")

    async def close(self) -> None:
        await ended(self._task)

    def caught_up(self, partition: Partition) -> None:
        """A follower that is not in sync has fetched; it may join."""
        self._soon[partition] = None
        self._wanted.set()

    def look_at_all(self) -> None:
        """Not only when it is time to."""
        self._look_at = 0.0
        self._wanted.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._look_at = loop.time() + self._look_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._look_at):
                    await self._wanted.wait()
            concerned: Iterable[Partition] = tuple(self._soon)
            if loop.time() >= self._look_at:
                self._look_at = loop.time() + self._look_s
                self.looks += 1
                concerned = self._led()
            self._wanted.clear()
            self._soon.clear()
            try:
                await self._propose(await self._due(concerned))
            except GoQueueError as error:
                # They stay open, and are asked for again at the next look.
                logger.warning("in-sync sets are not changed: %s", error)
                await asyncio.sleep(LOOK_MIN_S)
            except Exception:
                logger.exception("in-sync sets are not changed; tried again")
                await asyncio.sleep(LOOK_MIN_S)

    async def _due(self, partitions: Iterable[Partition]) -> list[Due]:
        due: list[Due] = []
        pace = Pace()
        now_ms = self._clock_ms()
        for partition in partitions:
            proposal = partition.proposal_due(now_ms, self._may_join)
            if proposal is not None:
                due.append(Due(partition, proposal))
            if pace.is_over:
                await pace.rest()
                now_ms = self._clock_ms()
        return due

    def _may_join(self, member: Member) -> bool:
        return self._staying(member) > 0

    async def _propose(self, due: Sequence[Due]) -> None:
        me = self._me()
        if me is None:
            return
        await in_flight(
            (due[begin : begin + TOGETHER_MAX] for begin in range(0, len(due), TOGETHER_MAX)),
            lambda together: self._propose_together(together, me),
        )

    async def _propose_together(self, due: Sequence[Due], me: Member) -> None:
        done = await self._store.transact(
            list(self._compares(due, me)),
            [Put(*keys.partition_entry(*one.partition.name, one.proposal.state)) for one in due],
            [Get(one.key) for one in due],
        )
        if done.succeeded:
            for one in due:
                self._came_true(one, done.revision)
        elif len(due) == 1:
            _refused(due[0], done.responses[0])
        else:
            # One of them is out of date: the others must not wait for it.
            half = len(due) // 2
            await self._propose_together(due[:half], me)
            await self._propose_together(due[half:], me)

    def _compares(self, due: Sequence[Due], me: Member) -> Iterator[Compare]:
        joining = {one.proposal.joining for one in due if one.proposal.joining is not None}
        for member in sorted({me, *joining}):
            yield Compare.unchanged(keys.broker_key(member.node), member.broker_epoch)
        for member in sorted(joining):
            yield Compare.unchanged(keys.node_key(member.node), self._staying(member))
        for one in due:
            yield Compare.unchanged(one.key, one.proposal.base_revision)

    def _came_true(self, due: Due, revision: int) -> None:
        partition, proposal = due
        if proposal.joining is None:
            self.shrunk += 1
        else:
            self.grown += 1
        logger.info(
            "%s: in sync are %s",
            partition.name,
            ", ".join(str(member.node) for member in proposal.state.in_sync),
        )
        partition.proposal_came_true(proposal, revision)


def _refused(due: Due, found: Sequence[KeyValue]) -> None:
    state = None
    if found:
        [stored] = found
        state = (keys.decode_partition(stored.key, stored.value), stored.mod_revision)
    due.partition.proposal_refused(due.proposal, state)
