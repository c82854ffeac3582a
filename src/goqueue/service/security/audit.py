"""The audit: what callers did and were refused lately, for those who may see the cluster."""

from goqueue.broker.node import Node
from goqueue.model.audit import AuditQuery, FoundEntries
from goqueue.model.caller import Caller
from goqueue.service.security.access import Access


class AuditService:
    def __init__(self, node: Node, access: Access) -> None:
        self._audit = node.audit
        self._access = access

    async def recent(
        self, caller: Caller, *, limit: int, principal: str | None, event: str | None
    ) -> FoundEntries:
        """The newest of all brokers, and of all tenants: who belongs to one is refused."""
        cluster = self._access.describable_cluster(caller)
        query = AuditQuery(limit=limit, principal=principal, event=event)
        return await self._audit.recent(cluster, query)
