"""The room of quotas: stored, changed, and measured."""

from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

from goqueue.broker.quotas.tenant_limits import TenantLimits
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Delete, Op, Put
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.caller import Caller, Door
from goqueue.model.errors import GoQueueError, InvalidRequest, PolicyViolation
from goqueue.model.fairness.named_shares import NamedShares
from goqueue.model.measuring.quotas import QuotaFigures
from goqueue.model.rights import ConfigurableCluster, InspectableCluster
from goqueue.model.security.quotas import (
    QUOTAS_MAX,
    Quota,
    QuotaChange,
    QuotaExceeded,
    QuotaFilter,
    QuotaKind,
    QuotaUsage,
    check_quota_entity,
    check_quota_values,
)
from goqueue.model.settings import INT32_MAX
from goqueue.pace import in_slices
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature, first_use
from goqueue.state.quotas.ledger import ClientQuota, Ledger, Windows
from goqueue.state.security.image import SecurityImage

if TYPE_CHECKING:
    from goqueue.broker.node import Node

# In one answer, and as labels of metrics: those who use most of their quotas.
USAGE_MAX: Final = 100
_WORDS: Final = {
    QuotaKind.PRODUCED: "bytes published",
    QuotaKind.FETCHED: "bytes read",
    QuotaKind.REQUESTS: "requests",
    QuotaKind.MUTATIONS: "partitions made and deleted",
}


def monotonic_ms() -> float:
    return monotonic() * 1000


class Quotas:
    def __init__(
        self,
        node: "Node",
        changes: KeyChanges,
        follower: MetadataFollower,
        now_ms: Callable[[], float] = monotonic_ms,
    ) -> None:
        self._changes = changes
        self._follower = follower
        self.now_ms = now_ms
        config = node.config
        windows = Windows(config.quota_window_size_seconds, config.controller_quota_window_num)
        self.ledger = Ledger(windows)
        self._used = SecurityImage()
        self.limits = TenantLimits(node, now_ms)
        # Of the partitions that all brokers together take.
        self.partition_shares = NamedShares(
            lambda: node.security.image.tenants, is_secured=node.security.is_on
        )
        node.security.listeners.append(self.use)

    def use(self, image: SecurityImage) -> None:
        """The metadata has changed; mostly something else."""
        if image.quotas is not self._used.quotas or image.tenants is not self._used.tenants:
            self.ledger.use(image.quotas, image.tenants)
        self._used = image

    def use_settings(self, config: BrokerConfig) -> None:
        rate = config.max_connection_creation_rate
        self.ledger.limit_connections(None if rate == INT32_MAX else rate)

    # --- stored ---------------------------------------------------------------------------

    def describe(self, _cluster: InspectableCluster, wanted: QuotaFilter) -> list[Quota]:
        quotas = self._follower.image.security.quotas
        return [quota for _, quota in sorted(quotas.items()) if wanted.matches(quota.entity)]

    async def alter(
        self,
        cluster: ConfigurableCluster,
        changes: Sequence[QuotaChange],
        *,
        validate_only: bool = False,
    ) -> list[GoQueueError | None]:
        """Each by itself: None, or why it was not done."""
        times = Counter(change.entity for change in changes)
        answers: list[GoQueueError | None] = []
        async for change in in_slices(changes):
            try:
                if times[change.entity] > 1:
                    raise InvalidRequest(f"quota of {change.entity}: given more than once")
                self._check(change)
                if not validate_only:
                    await self._store(cluster, change)
                answers.append(None)
            except GoQueueError as error:
                answers.append(error)
        return answers

    def check(self, _cluster: ConfigurableCluster, changes: Sequence[QuotaChange]) -> None:
        """Raises what one of them is refused for."""
        for change in changes:
            self._check(change)

    def _check(self, change: QuotaChange) -> None:
        check_quota_entity(change.entity)
        check_quota_values(change.entity, change.values)
        quotas = self._follower.image.security.quotas
        if len(quotas) >= QUOTAS_MAX and change.entity.key not in quotas:
            raise PolicyViolation(f"there are {QUOTAS_MAX} quotas already")

    async def _store(self, _cluster: ConfigurableCluster, change: QuotaChange) -> None:
        kind, entity = keys.SecurityKind.QUOTA, change.entity
        key = keys.security_key(kind, entity.key)

        def decide(value: bytes | None) -> list[Op]:
            quota = None if value is None else keys.decode_value(key, value, Quota)
            kept = {**({} if quota is None else quota.values), **change.values}
            values = {name: each for name, each in kept.items() if each is not None}
            if not values:
                return [] if value is None else [Delete(key)]
            level = first_use(self._follower.image, Feature.SECURITY)
            new = Quota(**entity._asdict(), values=values)
            return [
                Put(*keys.security_entry(kind, entity.key, new)),
                *(Put(*each) for each in level),
            ]

        await self._changes.change(key, decide)

    # --- measured -------------------------------------------------------------------------

    def of_client(self, caller: Caller) -> ClientQuota | None:
        """None: nothing is measured of it."""
        return self.ledger.of_client(caller.principal, caller.client_id, self.now_ms())

    def usage(self, _cluster: InspectableCluster) -> list[QuotaUsage]:
        return self.ledger.usage(self.now_ms(), USAGE_MAX)

    def figures(self) -> QuotaFigures:
        throttled = self.ledger.throttled_ms
        seconds = {kind: throttled[kind] / 1000 for kind in QuotaKind}
        return QuotaFigures(seconds, self.ledger.usage(self.now_ms(), USAGE_MAX))

    def admit(self, caller: Caller, kind: QuotaKind) -> None:
        """Before something is done: raises while the caller is in debt."""
        quota = self.of_client(caller) if self.ledger.is_on else None
        wait_ms = 0 if quota is None else quota.wait_ms(kind, self.now_ms())
        if wait_ms:
            self.ledger.throttled_ms[kind] += wait_ms
            raise QuotaExceeded(
                f"quota {kind.value}: {caller.principal} has had more {_WORDS[kind]} than it may; "
                f"try again in {wait_ms} ms",
                wait_ms,
            )

    def charge(self, caller: Caller, kind: QuotaKind, amount: float) -> int:
        """Something was used; returns how long the caller should wait for more."""
        quota = self.of_client(caller) if self.ledger.is_on else None
        return 0 if quota is None else quota.charge(kind, amount, self.now_ms())

    def is_measured(self, caller: Caller) -> bool:
        """Whether bytes are counted here: Kafka's door counts its own."""
        return self.ledger.is_on and caller.door is not Door.KAFKA
