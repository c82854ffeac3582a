"""Notices the end of another broker's process long before its lease runs out.

Each broker holds one idle connection to every other one. When a process ends, however it ends, its
kernel closes them; if it then refuses a new one, nobody listens there any more. Who saw that is a
witness. With two witnesses (one, where only one other broker is left) the lease of the dead is
revoked, and the election begins. A mistake costs the broker a new registration, nothing else.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from typing import Final

from goqueue.broker.membership.membership import Membership
from goqueue.broker.peers.connections import log_in_to, tls_between_brokers
from goqueue.metadata.store import (
    NO_LEASE,
    Compare,
    Get,
    GetPrefix,
    MetadataStore,
    Put,
)
from goqueue.model.client_security import ClientSecurity, SecurityOf, no_security
from goqueue.model.errors import BrokerUnreachable, GoQueueError, LeaseNotFound
from goqueue.model.names import NodeId
from goqueue.model.replication import Member
from goqueue.model.topics import BrokerView
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_image import MetadataImage

logger = logging.getLogger(__name__)

# Firewalls can refuse in the name of a host that is well: one witness is not enough.
_WITNESSES_NEEDED: Final = 2
# Between tries to reach a broker that is suspected, or cannot be reached at all.
_RETRY_S: Final = 0.2
# A connection that does not come about in this time says nothing about the process.
_CONNECT_MAX_S: Final = 5.0
# One that ends sooner was turned away, or was taken by a process that was about to end.
_LASTING_S: Final = 1.0
_TURNED_AWAY_S: Final = 0.05

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Witnesses:
    def __init__(
        self,
        store: MetadataStore,
        membership: Membership,
        *,
        node_id: NodeId,
        image: Callable[[], MetadataImage],
        security: SecurityOf = no_security,
    ) -> None:
        self._store = store
        self._membership = membership
        self._node_id = node_id
        self._image = image
        self._security = security
        self._watching: dict[Member, asyncio.Task[None]] = {}
        self._testified: set[Member] = set()
        self._withdrawing: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Hold a connection to each broker that is registered now."""
        registered = {
            Member(broker.node_id, broker.epoch): broker
            for broker in self._image().brokers.values()
            if broker.node_id != self._node_id
        }
        for gone in self._watching.keys() - registered.keys():
            self._watching.pop(gone).cancel()
            if gone in self._testified:
                withdrawing = asyncio.create_task(self._withdraw(gone))
                self._withdrawing.add(withdrawing)
                withdrawing.add_done_callback(self._withdrawing.discard)
        for arrived in registered.keys() - self._watching.keys():
            watching = self._watch(arrived, registered[arrived])
            self._watching[arrived] = asyncio.create_task(watching)

    async def close(self) -> None:
        tasks = (*self._watching.values(), *self._withdrawing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, peer: Member, broker: BrokerView) -> None:
        was_reached = False
        while True:
            try:
                security = self._security(broker.host, broker.kafka_port)
                streams = await _connected(broker, security)
            except ConnectionRefusedError:
                # An address that was never reached may be one that only clients can reach.
                if was_reached and not self._is_stopping(peer):
                    await self._testify(peer)
                await asyncio.sleep(_RETRY_S)
            except (OSError, UnicodeError, BrokerUnreachable):
                # Not reached, or not let in, or its host is no name that could be looked up.
                await asyncio.sleep(_RETRY_S)
            else:
                was_reached = True
                if peer in self._testified:
                    await self._withdraw(peer)
                await _until_it_ends(*streams)

    def _is_stopping(self, peer: Member) -> bool:
        """Whether it leaves by itself: its doors close before its logs do."""
        known = self._image().nodes.get(peer.node)
        return known is not None and known.record.is_draining

    async def _testify(self, peer: Member) -> None:
        """Say that the process is gone; with enough of us, end its registration."""
        lease = self._membership.lease
        if lease == NO_LEASE:
            return
        self._testified.add(peer)
        key = keys.broker_key(peer.node)
        try:
            done = await self._store.transact(
                [Compare.unchanged(key, peer.broker_epoch)],
                [
                    Put(keys.suspicion_key(*peer, self._node_id), b"", lease),
                    GetPrefix(keys.suspicions_prefix(*peer)),
                    Get(key),
                ],
            )
            if not done.succeeded:
                return
            _, witnesses, (registered,) = done.responses
            others = len(self._image().brokers) - 1
            if len(witnesses) >= min(_WITNESSES_NEEDED, others):
                logger.warning("node %d is gone: its process ended", peer.node)
                with contextlib.suppress(LeaseNotFound):
                    await self._store.revoke(registered.lease)
        except GoQueueError as error:
            logger.warning("the end of node %d cannot be told: %s", peer.node, error)

    async def _withdraw(self, peer: Member) -> None:
        self._testified.discard(peer)
        with contextlib.suppress(GoQueueError):
            await self._store.delete(keys.suspicion_key(*peer, self._node_id))


async def _connected(broker: BrokerView, security: ClientSecurity) -> Streams:
    """`ConnectionRefusedError` only if every address of the host refuses.

    Who does not log in is not kept.
    """
    context = tls_between_brokers(security) if security.tls else None
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_CONNECT_MAX_S):
        found = await loop.getaddrinfo(broker.host, broker.kafka_port, type=socket.SOCK_STREAM)
        problem = OSError(f"{broker.host} has no address")
        for *_, address in found:
            try:
                streams = await asyncio.open_connection(
                    str(address[0]),
                    broker.kafka_port,
                    ssl=context,
                    server_hostname=None if context is None else broker.host,
                )
                break
            except OSError as error:
                if problem.errno is None or not isinstance(error, ConnectionRefusedError):
                    problem = error
        else:
            raise problem
    if security.sasl_mechanism is not None:
        try:
            await log_in_to((broker.host, broker.kafka_port), streams, security)
        except BaseException:
            streams[1].close()
            raise
    return streams


async def _until_it_ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    began = time.monotonic()
    try:
        with contextlib.suppress(OSError):
            while await reader.read(1_024):
                pass
    finally:
        writer.close()
    if time.monotonic() < began + _LASTING_S:
        await asyncio.sleep(_TURNED_AWAY_S)
