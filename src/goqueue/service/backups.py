"""Backups: how far every log goes at one moment, and that it stays so while it is copied.

The copying itself is a client's work: it fetches the logs as any Kafka client does.
"""

from goqueue.broker.backups import (
    BEGIN,
    CUT,
    END,
    PAUSE,
    RENEW,
    Backups,
    Begin,
    End,
    Pause,
    Renew,
    TakeCut,
)
from goqueue.broker.node import Node
from goqueue.model.backups import BrokerCut
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited


class BackupService:
    """Each operation needs the right to alter the cluster: a backup has everything in it. `at` is
    the broker that is meant; this one if it is None."""

    def __init__(self, node: Node, access: Access) -> None:
        self._backups = Backups(node)
        self._access = access

    @audited("backup.begin", Resource.CLUSTER)
    async def begin(self, caller: Caller, ttl_ms: int, *, at: int | None = None) -> str:
        """Put compaction off for so long; returns the name under which to go on."""
        cluster = self._access.alterable_cluster(caller)
        return await self._backups.ask(BEGIN, Begin(cluster, ttl_ms), at)

    async def renew(self, caller: Caller, name: str, ttl_ms: int, *, at: int | None = None) -> None:
        cluster = self._access.alterable_cluster(caller)
        await self._backups.ask(RENEW, Renew(cluster, name, ttl_ms), at)

    @audited("backup.pause_transactions", Resource.CLUSTER, about="name")
    async def pause_transactions(
        self, caller: Caller, name: str, pause_ms: int, *, at: int | None = None
    ) -> None:
        """While several brokers are asked for their cuts, one after the other."""
        cluster = self._access.alterable_cluster(caller)
        await self._backups.ask(PAUSE, Pause(cluster, name, pause_ms), at)

    @audited("backup.end", Resource.CLUSTER, about="name")
    async def end(self, caller: Caller, name: str, *, at: int | None = None) -> None:
        cluster = self._access.alterable_cluster(caller)
        await self._backups.ask(END, End(cluster, name), at)

    @audited("backup.cut", Resource.CLUSTER, about="name", detail=("with_metadata",))
    async def cut(
        self, caller: Caller, name: str, *, with_metadata: bool, at: int | None = None
    ) -> BrokerCut:
        """Of all that the broker leads, as of one moment."""
        cluster = self._access.alterable_cluster(caller)
        return await self._backups.ask(CUT, TakeCut(cluster, name, with_metadata), at)
