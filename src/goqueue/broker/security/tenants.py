"""Tenants: made, changed, removed; each change is one compare-and-set of the tenant's key."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Delete, Op, Put
from goqueue.model.errors import PolicyViolation
from goqueue.model.rights import AlterableCluster, DescribableCluster
from goqueue.model.security.errors import TenantExists, UnknownTenant
from goqueue.model.security.tenant_limits import check_tenant_limits
from goqueue.model.security.tenants import Tenant, check_tenant_name
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature, first_use

# Each is read at every start and held by every broker.
TENANTS_MAX: Final = 10_000


class Tenants:
    def __init__(
        self, changes: KeyChanges, follower: MetadataFollower, clock_ms: Callable[[], int]
    ) -> None:
        self._changes = changes
        self._follower = follower
        self._clock_ms = clock_ms

    def all(self, _cluster: DescribableCluster) -> Mapping[str, Tenant]:
        return self._known

    def find(self, _cluster: DescribableCluster, name: str) -> Tenant:
        return _found(name, self._known.get(name))

    def check_new(self, _cluster: AlterableCluster, name: str, limits: Mapping[str, float]) -> None:
        check_tenant_name(name)
        check_tenant_limits(limits)
        if name in self._known:
            raise TenantExists(f"tenant {name!r} is there already")
        if len(self._known) >= TENANTS_MAX:
            raise PolicyViolation(f"there are {TENANTS_MAX} tenants already")

    async def create(
        self, cluster: AlterableCluster, name: str, limits: Mapping[str, float]
    ) -> Tenant:
        self.check_new(cluster, name, limits)
        tenant = Tenant(name=name, limits=limits, created_ms=self._clock_ms())

        def made(current: Tenant | None) -> Tenant:
            if current is not None:
                raise TenantExists(f"tenant {name!r} is there already")
            return tenant

        await self._change(name, made)
        return tenant

    async def set_limits(
        self, _cluster: AlterableCluster, name: str, changes: Mapping[str, float | None]
    ) -> Tenant:
        """None takes a limit away; what is not named stays."""
        check_tenant_limits({limit: value for limit, value in changes.items() if value is not None})

        def changed(current: Tenant | None) -> Tenant:
            kept = {**_found(name, current).limits, **changes}
            limits = {limit: value for limit, value in kept.items() if value is not None}
            return msgspec.structs.replace(_found(name, current), limits=limits)

        await self._change(name, changed)
        return self._known[name]

    async def delete(self, _cluster: AlterableCluster, name: str) -> None:
        def gone(current: Tenant | None) -> None:
            _found(name, current)

        await self._change(name, gone)

    @property
    def _known(self) -> Mapping[str, Tenant]:
        return self._follower.image.security.tenants

    async def _change(self, name: str, change: Callable[[Tenant | None], Tenant | None]) -> None:
        key = keys.security_key(keys.SecurityKind.TENANT, name)

        def decide(value: bytes | None) -> list[Op]:
            tenant = change(None if value is None else keys.decode_value(key, value, Tenant))
            if tenant is None:
                return [Delete(key)]
            level = first_use(self._follower.image, Feature.SECURITY)
            entry = keys.security_entry(keys.SecurityKind.TENANT, name, tenant)
            return [Put(*entry), *(Put(*each) for each in level)]

        await self._changes.change(key, decide)


def _found(name: str, tenant: Tenant | None) -> Tenant:
    if tenant is None:
        raise UnknownTenant(f"tenant {name!r} is not there")
    return tenant
