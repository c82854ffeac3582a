"""Tenants: listed, made, limited, removed with what they have. Only for callers without one."""

from collections.abc import Mapping

from goqueue.broker.node import Node
from goqueue.broker.security.tenant_things import TenantThings
from goqueue.model.caller import Caller
from goqueue.model.errors import Conflict
from goqueue.model.rights import Resource
from goqueue.model.schemas.errors import RegistryRefusal
from goqueue.model.security.tenants import SEPARATOR, Tenant, TenantUsage
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited


class TenantService:
    def __init__(self, node: Node, access: Access) -> None:
        self._tenants = node.security.tenants
        self._things = TenantThings(node)
        self._access = access

    def tenants(self, caller: Caller) -> list[Tenant]:
        """By name."""
        known = self._tenants.all(self._access.describable_cluster(caller))
        return [known[name] for name in sorted(known)]

    def tenant(self, caller: Caller, name: str) -> Tenant:
        return self._tenants.find(self._access.describable_cluster(caller), name)

    async def usage(self, caller: Caller, name: str) -> TenantUsage:
        cluster = self._access.describable_cluster(caller)
        self._tenants.find(cluster, name)
        return await self._things.usage(cluster, name)

    @audited("tenant.create", Resource.CLUSTER, about="name")
    async def create(self, caller: Caller, name: str, limits: Mapping[str, float]) -> Tenant:
        """Refused while there are things that would belong to it: a group that somebody called
        `acme@billing`, or what a tenant of the name left."""
        cluster = self._access.alterable_cluster(caller)
        self._tenants.check_new(cluster, name, limits)
        there = await self._things.usage(self._access.describable_cluster(caller), name)
        if there.has_any:
            raise Conflict(
                f"tenant {name!r}: names that begin with {name}{SEPARATOR} are in use: {there}"
            )
        return await self._tenants.create(cluster, name, limits)

    @audited("tenant.limit", Resource.CLUSTER, about="name")
    async def set_limits(
        self, caller: Caller, name: str, changes: Mapping[str, float | None]
    ) -> Tenant:
        """None takes a limit away; what is not named stays."""
        return await self._tenants.set_limits(self._access.alterable_cluster(caller), name, changes)

    @audited("tenant.delete", Resource.CLUSTER, about="name", detail=("is_forced",))
    async def delete(self, caller: Caller, name: str, *, is_forced: bool) -> None:
        """With its rules and settings. `is_forced`: also with its users, topics, groups and
        subjects. Transactional ids expire by themselves, and until then no tenant of the name can
        be made."""
        cluster = self._access.alterable_cluster(caller)
        describable = self._access.describable_cluster(caller)
        self._tenants.find(describable, name)
        there = await self._things.usage(describable, name)
        if there.has_any and not is_forced:
            raise Conflict(f"tenant {name!r} has {there}; force removes them with it")
        try:
            await self._things.remove(cluster, name)
        except RegistryRefusal as refusal:
            raise Conflict(f"tenant {name!r} is not removed yet: {refusal}") from None
        await self._tenants.delete(cluster, name)
