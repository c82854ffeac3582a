"""Holds the office of the controller where nobody else does, and does what is due."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from goqueue.broker.background import ended
from goqueue.broker.controller.acting import Acting, Deposed
from goqueue.broker.controller.log_ends import told_log_ends
from goqueue.broker.controller.viewing import cluster_view, companions, moving
from goqueue.broker.membership.membership import Membership
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import NO_LEASE, Compare, Delete, MetadataStore, Put
from goqueue.model.elections import ElectionAnswer, ElectionKind
from goqueue.model.errors import GoQueueError, ShuttingDown
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.replication import Member
from goqueue.model.topics import TopicView
from goqueue.state import metadata_keys as keys
from goqueue.state.controller.balancing import demanded, misplaced
from goqueue.state.controller.commit_settings import CommitSettings
from goqueue.state.controller.companions import following_owners
from goqueue.state.controller.elections import LogEnd
from goqueue.state.controller.moving import moves_going_on
from goqueue.state.controller.planning import (
    Action,
    Admit,
    AskLogEnds,
    ChangePartition,
    plan,
    settled,
)
from goqueue.state.membership.move_settings import are_moves_paused
from goqueue.state.metadata_image import NOBODY, ImageChanges, MetadataImage

logger = logging.getLogger(__name__)

# Everything that matters wakes the controller; this is for what nobody tells it.
_TICK_S: Final = 1.0
_RETRY_S: Final = 0.2
# Planning for more takes more than some ms: it happens beside the event loop.
_PLANNED_ON_LOOP_MAX: Final = 500


class Controller:
    def __init__(
        self,
        store: MetadataStore,
        follower: MetadataFollower,
        membership: Membership,
        *,
        node_id: NodeId,
        balance_every_s: float | None,
        commits: Callable[[TopicView], CommitSettings],
    ) -> None:
        """`balance_every_s`: how often the first of the replicas gets its partitions back.
        `commits`: what a topic's settings say now."""
        self._store = store
        self._follower = follower
        self._membership = membership
        self._node_id = node_id
        self._balance_every_s = balance_every_s
        self._balanced_at = time.monotonic()
        self._commits = commits
        # Whoever changes a topic's settings changes its partitions, too; defaults change for all.
        self._are_settings_due = True
        # The revision at which this broker took the office; 0 while it does not hold it.
        self._held = 0
        # What may need a decision; None is everything.
        self._due: set[TopicPartition] | None = None
        self._log_ends: dict[TopicPartition, dict[Member, LogEnd]] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._noted_problem = ""
        # The revision of the metadata in which companions were looked at last.
        self._aligned_at = 0

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return bool(self._held) and self._follower.image.controller.revision == self._held

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        await ended(self._task)
        self._task = None

    async def resign(self) -> None:
        """Let another broker take the office now, not when this one's lease ends."""
        await self.stop()
        if self.is_active:
            held, self._held = self._held, 0
            await self._store.transact(
                [Compare.unchanged(keys.CONTROLLER_KEY, held)], [Delete(keys.CONTROLLER_KEY)]
            )

    def image_changed(self, changes: ImageChanges) -> None:
        self._are_settings_due |= bool(changes.broker_configs_changed or changes.controller_changed)
        everywhere = changes.brokers_changed or changes.nodes_changed or changes.controller_changed
        if everywhere or not self._held:
            self._due = None
        elif self._due is not None:
            self._due.update(changes.partitions_changed, changes.partitions_added)
            for topic in changes.topics_created:
                self._due.update(TopicPartition(topic.name, p.index) for p in topic.partitions)
        self._wake.set()

    # --- the office -----------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._step()
                self._noted_problem = ""
            except ShuttingDown:
                return
            except Deposed as error:
                logger.info("%s", error)
                self._held = 0
            except Exception as error:
                self._due = None
                self._note_problem(error)
                await asyncio.sleep(_RETRY_S)

    async def _step(self) -> None:
        image = self._follower.image
        if image.controller is NOBODY:
            await self._take_office()
            image = self._follower.image
        if image.controller.node_id != self._node_id:
            self._held = 0
            return
        if image.controller.revision != self._held and not await self._is_mine(image):
            return
        await self._control()
        await self._align()
        await self._follow_settings()
        await self._balance()

    async def _take_office(self) -> None:
        membership = self._membership
        if not membership.epoch or membership.lease == NO_LEASE or membership.is_leaving:
            return
        done = await self._store.transact(
            [
                Compare.missing(keys.CONTROLLER_KEY),
                Compare.unchanged(keys.broker_key(self._node_id), membership.epoch),
            ],
            [Put(*keys.controller_entry(self._node_id), membership.lease)],
        )
        if done.succeeded:
            self._held, self._due = done.revision, None
            await self._follower.applied(done.revision)
            logger.info("this broker is the controller now")

    async def _is_mine(self, image: MetadataImage) -> bool:
        """Whether the office that the image shows is held under this broker's lease: the answer to
        taking it may have been lost, or an earlier process of this node held it."""
        found = (await self._store.get(keys.CONTROLLER_KEY)).one
        if found is None or found.lease != self._membership.lease:
            return False
        self._held, self._due = found.mod_revision, None
        return found.mod_revision == image.controller.revision

    # --- what is due ----------------------------------------------------------------------

    async def _control(self) -> None:
        image = self._follower.image
        due, self._due = self._due, set()
        if len(image.admitted()) < len(image.brokers):
            # Only a look at everything tells that nothing is left to correct before admitting.
            due = None
        if due is not None and not due:
            return
        actions = await self._plan(due)
        acting = Acting(self._store, self._held)
        try:
            await acting.change([a for a in actions if isinstance(a, ChangePartition)])
            for admission in [a for a in actions if isinstance(a, Admit)]:
                await acting.admit(admission)
                logger.info("node %d is admitted", admission.node)
            await self._ask([a for a in actions if isinstance(a, AskLogEnds)])
        except BaseException:
            self._due = None
            raise
        if acting.revision:
            await self._follower.applied(acting.revision)
            _log_changes(actions)

    async def _plan(self, due: set[TopicPartition] | None) -> list[Action]:
        image = self._follower.image
        log_ends = dict(self._log_ends)

        def planned() -> list[Action]:
            return plan(cluster_view(image, only=due, log_ends=log_ends))

        count = (
            len(due) if due is not None else sum(len(t.partitions) for t in image.topics.values())
        )
        return planned() if count <= _PLANNED_ON_LOOP_MAX else await asyncio.to_thread(planned)

    async def _ask(self, questions: Sequence[AskLogEnds]) -> None:
        """Brokers whose logs are in doubt tell where they end; the next look decides."""
        told: dict[TopicPartition, dict[Member, LogEnd]] = {}
        for question in questions:
            topic = self._follower.image.topics.get(question.partition.topic)
            if topic is None:
                # It was deleted while others were asked for.
                continue
            leader_epoch = topic.partitions[question.partition.partition].leader_epoch
            ends = await told_log_ends(self._store, question.partition, leader_epoch)
            if all(member in ends for member in question.members):
                told[question.partition] = ends
        if questions:
            self._due = (
                None if self._due is None else self._due.union(q.partition for q in questions)
            )
        if told:
            self._wake.set()
        self._log_ends = told

    async def _align(self) -> None:
        """Let companions be where the partitions are that they belong to, and be led there; end
        moves of partitions whose copies are all there."""
        image = self._follower.image
        if image.revision == self._aligned_at:
            return
        owners, on_their_way = companions(image), moving(image)
        if owners or on_their_way:
            view = cluster_view(image, only={*owners, *on_their_way}, log_ends={})
            changes = {change.partition: change for change in following_owners(view)}
            going_on = moves_going_on(view, owners, are_paused=are_moves_paused(image))
            changes |= {change.partition: change for change in going_on}
            if changes:
                await Acting(self._store, self._held).change(list(changes.values()))
        self._aligned_at = image.revision

    # --- elections that are asked for -----------------------------------------------------

    async def elect(
        self, partitions: Sequence[TopicPartition], kind: ElectionKind
    ) -> dict[TopicPartition, ElectionAnswer]:
        """`Deposed` where this broker is not the controller."""
        if not self.is_active:
            raise Deposed(f"the controller is node {self._follower.image.controller_id}")
        view = cluster_view(self._follower.image, only=partitions, log_ends={})
        demands = {partition: demanded(view, partition, kind) for partition in partitions}
        changes = [demand.change for demand in demands.values() if demand.change is not None]
        acting = Acting(self._store, self._held)
        refused = await acting.change(changes)
        if acting.revision:
            await self._follower.applied(acting.revision)
        return {
            partition: ElectionAnswer.CONFLICT if partition in refused else demand.answer
            for partition, demand in demands.items()
        }

    async def _balance(self) -> None:
        """Give partitions back to the first of their replicas, now and then."""
        if self._balance_every_s is None:
            return
        now = time.monotonic()
        if now < self._balanced_at + self._balance_every_s:
            return
        self._balanced_at = now
        image = self._follower.image
        changes = await asyncio.to_thread(lambda: misplaced(cluster_view(image, log_ends={})))
        if changes:
            logger.info("%d partitions go back to the first of their replicas", len(changes))
            await Acting(self._store, self._held).change(changes)

    async def _follow_settings(self) -> None:
        if not self._are_settings_due:
            return
        self._are_settings_due = False
        topics, commits = tuple(self._follower.image.topics.values()), self._commits
        refused: set[TopicPartition] | None = None
        try:
            changes = await asyncio.to_thread(
                lambda: [change for topic in topics for change in settled(topic, commits(topic))]
            )
            if changes:
                logger.info("%d partitions follow settings of their topics", len(changes))
            refused = await Acting(self._store, self._held).change(changes)
        finally:
            # Also if the store was away. They may have become due again meanwhile.
            self._are_settings_due |= refused is None or bool(refused)

    def _note_problem(self, error: Exception) -> None:
        if str(error) != self._noted_problem:
            self._noted_problem = str(error)
            unforeseen = None if isinstance(error, GoQueueError) else error
            logger.error("the controller cannot act, tried again: %s", error, exc_info=unforeseen)


def _log_changes(actions: Sequence[Action]) -> None:
    changes = [action for action in actions if isinstance(action, ChangePartition)]
    if changes:
        led = sum(change.state.has_leader for change in changes)
        logger.info(
            "%d partitions changed, %d of them have no leader", len(changes), len(changes) - led
        )
