"""Quotas: seen and changed by those who may, and asked by doors for what a client may use."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from goqueue.broker.node import Node
from goqueue.model.caller import ANONYMOUS, Caller, Principal
from goqueue.model.errors import GoQueueError
from goqueue.model.fairness.headcount import Headcount
from goqueue.model.rights import Resource
from goqueue.model.security.quotas import (
    Quota,
    QuotaChange,
    QuotaFilter,
    QuotaKind,
    QuotaUsage,
)
from goqueue.model.security.tenants import SEPARATOR
from goqueue.model.security.users import BROKER_KIND, BROKERS_USER
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited
from goqueue.state.quotas.bucket import Bucket as LedgerBucket
from goqueue.state.quotas.ledger import ClientQuota as LedgerQuota

# What a door keeps of a client that comes again.
ClientQuota: TypeAlias = LedgerQuota
Bucket: TypeAlias = LedgerBucket

_EVERYTHING: Final = QuotaFilter()


def party_of(principal: Principal) -> str:
    """With whom a caller takes turns as one: its tenant, else the user. Empty: with nobody."""
    if principal.tenant:
        return principal.tenant + SEPARATOR
    if principal.kind == BROKER_KIND:
        # A user may have the name that they have.
        return BROKERS_USER
    return "" if principal == ANONYMOUS else principal.name


def _refusal(results: Sequence[GoQueueError | None]) -> str:
    """Of changes that are made each by itself, the first that was not."""
    return next((error.code for error in results if error is not None), "")


class QuotaService:
    def __init__(self, node: Node, access: Access) -> None:
        self._quotas = node.quotas
        self._limits = node.quotas.limits
        self._access = access
        # Doors look at its `version` with every request.
        self.ledger = node.quotas.ledger
        self.now_ms = node.quotas.now_ms
        # Tenants, and users without one, that have connections at any door, and how many.
        self.parties = Headcount()

    # --- administration -------------------------------------------------------------------

    def describe(self, caller: Caller, wanted: QuotaFilter = _EVERYTHING) -> list[Quota]:
        return self._quotas.describe(self._access.inspectable_cluster(caller), wanted)

    @audited("quota.alter", Resource.CLUSTER, detail=("changes",), failure=_refusal)
    async def alter(
        self, caller: Caller, changes: Sequence[QuotaChange], *, validate_only: bool = False
    ) -> list[GoQueueError | None]:
        """Each change by itself: None, or why it was not done."""
        cluster = self._access.configurable_cluster(caller)
        return await self._quotas.alter(cluster, changes, validate_only=validate_only)

    @audited("quota.alter", Resource.CLUSTER, detail=("changes",))
    async def alter_all(self, caller: Caller, changes: Sequence[QuotaChange]) -> None:
        """All are checked before one is made."""
        cluster = self._access.configurable_cluster(caller)
        self._quotas.check(cluster, changes)
        for refused in await self._quotas.alter(cluster, changes):
            if refused is not None:
                raise refused

    def usage(self, caller: Caller) -> list[QuotaUsage]:
        """Those who use most of their quotas at this broker."""
        return self._quotas.usage(self._access.inspectable_cluster(caller))

    # --- for doors ------------------------------------------------------------------------

    def of_client(self, caller: Caller) -> ClientQuota | None:
        """None: nothing is measured of it. To be asked again when `ledger.version` has changed."""
        # Other brokers are held to nothing: what they ask for is work for clients of their own.
        if caller.principal.kind == BROKER_KIND:
            return None
        return self._quotas.of_client(caller)

    def connected(self, address: str) -> int:
        """A Kafka client has come; returns for how many milliseconds it is not served."""
        return self.ledger.connected(address, self.now_ms())

    def joined(self, principal: Principal) -> None:
        """A connection is somebody's from now on; raises `LimitReached` if its tenant has enough
        of them."""
        self._limits.joined(principal.tenant)
        self.parties.add(party_of(principal))

    def left(self, principal: Principal) -> None:
        self._limits.left(principal.tenant)
        self.parties.remove(party_of(principal))

    def admit(self, caller: Caller) -> bool:
        """Before a request over HTTP; raises while the caller has had too much of the event loop.
        Returns whether its time is to be told to `spent`."""
        if not self.ledger.is_on:
            return False
        quota = self.of_client(caller)
        if quota is None or not quota.requests:
            return False
        self._quotas.admit(caller, QuotaKind.REQUESTS)
        return True

    def spent(self, caller: Caller, seconds: float) -> None:
        self._quotas.charge(caller, QuotaKind.REQUESTS, seconds * 100)
