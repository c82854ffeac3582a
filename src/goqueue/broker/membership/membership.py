"""This broker's place in its cluster: registered under a lease, admitted by the controller.

The registration is never rewritten: the revision at which it was written is the broker's epoch, and
everything that it promises is promised under that. When the lease is lost it registers anew, and
is another member than before. While the metadata store is away nothing changes, for nobody else can
be elected either; unless the others reach it, which they are asked for (`seclusion.py`).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.background import ended
from goqueue.broker.membership.identity_file import IdentityFile
from goqueue.broker.stored_revision import check_feature_level
from goqueue.metadata.store import (
    NO_LEASE,
    Compare,
    CompareOp,
    CompareTarget,
    KeptLease,
    KeyValue,
    LeaseId,
    MetadataStore,
    Put,
)
from goqueue.model.errors import (
    DataDirectoryError,
    GoQueueError,
    LeaseNotFound,
    MetadataUnavailable,
    ShuttingDown,
)
from goqueue.model.membership import FEATURE_LEVEL
from goqueue.model.names import NodeId
from goqueue.model.replication import Member
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.identity import registration
from goqueue.state.metadata_image import MetadataImage

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.3
# How often somebody who watches a start is told what it waits for.
_TELL_S: Final = 10.0
# Another broker's registration may outlive it by its lease; then the id is in use for good.
_PATIENCE_LEASES: Final = 3


class NodeIdInUse(DataDirectoryError):
    """Another folder is registered under this node id."""


class Membership:
    def __init__(
        self,
        store: MetadataStore,
        identity: IdentityFile,
        *,
        node_id: NodeId,
        cluster_id: str,
        session_timeout_ms: int,
        stall_max_ms: int,
        is_cordoned: bool,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._store = store
        self._identity = identity
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._session_timeout_ms = session_timeout_ms
        self._stall_max_ms = stall_max_ms
        self._is_cordoned = is_cordoned
        self._image = image
        self._value: keys.BrokerValue | None = None
        self._kept: KeptLease | None = None
        self._ttl_s = session_timeout_ms / 1_000
        self._renewed_at_s = time.monotonic()
        self._epoch = 0
        self._is_admitted = False
        self._is_leaving = False
        self._admitted = asyncio.Event()
        self._must_register = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.lease = NO_LEASE
        # The last that was looked at for what it says of this broker.
        self.seen_revision = 0
        # Why this broker lets others go on without it; None while it does not.
        self.stepped_down: str | None = None

    @property
    def me(self) -> Member | None:
        """Who this broker is where it may lead and follow; None while it may not."""
        return Member(self._node_id, self._epoch) if self._is_admitted else None

    @property
    def epoch(self) -> int:
        """Of the registration that the image shows; 0 before the first."""
        return self._epoch

    @property
    def directory(self) -> UUID:
        """Of the folder: others may use the same node id, once it is free."""
        return self._identity.identity.directory

    @property
    def is_leaving(self) -> bool:
        return self._is_leaving

    @property
    def has_run_out(self) -> bool:
        """Whether the lease was not renewed for as long as it lasts: then others may be elected."""
        kept = self._kept
        renewed_at_s = self._renewed_at_s if kept is None else kept.renewed_at_s
        return time.monotonic() > renewed_at_s + self._ttl_s

    # --- joining --------------------------------------------------------------------------

    async def join(self, value: keys.BrokerValue) -> None:
        """Register, and stay so; returns when this broker is admitted."""
        self._value = value
        await self._register_first()
        self._task = asyncio.create_task(self._stay_registered())
        while not self._is_admitted:
            try:
                async with asyncio.timeout(_TELL_S):
                    await self._admitted.wait()
            except TimeoutError:
                logger.warning(
                    "not admitted yet; the controller is node %d", self._image().controller_id
                )

    async def _register_first(self) -> None:
        """At a start somebody watches, and is told what is wrong."""
        loop = asyncio.get_running_loop()
        refused_at = loop.time() + _PATIENCE_LEASES * self._session_timeout_ms / 1_000
        while True:
            try:
                await self._register()
                return
            except NodeIdInUse:
                if loop.time() > refused_at:
                    raise
            except (MetadataUnavailable, LeaseNotFound) as error:
                logger.warning("not registered yet, tried again: %s", error)
            await asyncio.sleep(_RETRY_S)

    async def _stay_registered(self) -> None:
        noted = ""
        while True:
            await self._must_register.wait()
            self._must_register.clear()
            try:
                await self._register()
                noted = ""
            except ShuttingDown:
                return
            except Exception as error:
                if str(error) != noted:
                    noted = str(error)
                    logger.error("this broker is not registered, tried again: %s", error)
                self._must_register.set()
                await asyncio.sleep(_RETRY_S)

    async def _register(self) -> None:
        assert self._value is not None
        key = keys.broker_key(self._node_id)
        before = (await self._store.get(key)).one
        if before is not None:
            if self.lease != NO_LEASE and before.lease == self.lease:
                # The answer to an earlier try was lost.
                return
            await self._take_over(before)
        # Others may have been upgraded since this broker started, while it was cut off.
        await check_feature_level(self._store)
        await self._hold_lease()
        said = registration(self._identity.identity, is_cordoned=self._is_cordoned)
        value = msgspec.structs.replace(self._value, registration=said)
        entry = keys.broker_entry(self._node_id, value)
        cluster_id = keys.cluster_id_entry(self._cluster_id)
        done = await self._store.transact(
            [
                Compare.missing(key),
                Compare(cluster_id.key, CompareTarget.VALUE, CompareOp.EQUAL, cluster_id.value),
            ],
            [Put(*entry, self.lease)],
        )
        if not done.succeeded:
            raise MetadataUnavailable(
                f"{key} was written by another, or {cluster_id.key} is not {self._cluster_id}"
            )
        logger.info("registered as node %d, broker epoch %d", self._node_id, done.revision)

    async def _take_over(self, before: KeyValue) -> None:
        """End the registration of an earlier process on this folder, whose lease still runs."""
        other = keys.decode_value(before.key, before.value, keys.BrokerValue)
        mine = self._identity.identity.directory
        if other.registration is None or other.registration.directory != mine:
            raise NodeIdInUse(
                f"node id {self._node_id} is in use by the broker at {other.host}:"
                f"{other.kafka_port} with another data directory; give this one another --node-id"
            )
        with contextlib.suppress(LeaseNotFound):
            await self._store.revoke(before.lease)

    async def _hold_lease(self) -> None:
        self._let_go()
        lease = await self._store.grant_lease(self._session_timeout_ms)
        # The store may grant more than was asked for.
        ttl_ms = await self._store.keep_alive(lease)
        self.lease = lease
        self._kept = self._store.keep_lease(
            lease,
            ttl_ms,
            stall_max_ms=self._stall_max_ms,
            on_lost=lambda: self._lease_lost(lease),
        )
        self._ttl_s = ttl_ms / 1_000

    def _lease_lost(self, lease: LeaseId) -> None:
        if lease == self.lease and not self._is_leaving:
            logger.warning("the session of this broker ran out: it registers anew")
            self._must_register.set()

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept.stop()
            self._renewed_at_s = self._kept.renewed_at_s
        self._kept, self.lease = None, NO_LEASE

    # --- seen by others -------------------------------------------------------------------

    async def see(self, image: MetadataImage) -> None:
        """Before an image is acted on: is this broker registered in it, is it admitted?"""
        self.seen_revision = image.revision
        mine = image.brokers.get(self._node_id)
        known = image.nodes.get(self._node_id)
        if mine is None or mine.registration is None:
            if self._epoch and not self._is_leaving:
                self._must_register.set()
            return
        if mine.registration.incarnation != self._identity.incarnation:
            return
        if mine.epoch > self._epoch:
            self._epoch = mine.epoch
            self._is_admitted = False
            self.stepped_down = None
        if self.stepped_down is not None:
            # What comes before the end of that registration tells nothing new.
            return
        if not self._is_admitted and known and known.record.broker_epoch == self._epoch:
            await asyncio.to_thread(self._identity.admit)
            self._is_admitted = True
            self._admitted.set()
            logger.info("admitted to the cluster under broker epoch %d", self._epoch)

    def step_down(self, reason: str) -> None:
        """Others go on without this broker: it is nobody until it has registered anew."""
        self.stepped_down = reason
        self._is_admitted = False

    # --- leaving --------------------------------------------------------------------------

    async def ask_to_leave(self) -> None:
        """Tell the controller that others should take over what this broker leads."""
        self._is_leaving = True
        known = self._image().nodes.get(self._node_id)
        if known is None or known.record.broker_epoch != self._epoch:
            return
        # Whoever admitted it may have been of a release that did not note the level.
        draining = msgspec.structs.replace(
            known.record, is_draining=True, feature_level=FEATURE_LEVEL
        )
        await self._store.transact(
            [Compare.unchanged(keys.node_key(self._node_id), known.revision)],
            [Put(*keys.node_entry(self._node_id, draining))],
        )

    async def leave(self) -> None:
        """Everything is on disk: the registration ends, and with it all that hangs on the lease."""
        await self.close()
        lease = self.lease
        self._let_go()
        if lease != NO_LEASE:
            with contextlib.suppress(GoQueueError):
                await self._store.revoke(lease)

    async def close(self) -> None:
        self._is_leaving = True
        await ended(self._task)
