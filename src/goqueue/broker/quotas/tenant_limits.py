"""What tenants have, counted where it is made: topics, partitions, groups, connections, bytes.

A thing is a tenant's by the part of its name before `@`. Counting goes through all names and is
done only for tenants that have the limit; bytes and messages in flight, which are asked for with
every message, are counted anew after a second.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from goqueue.model.caller import Caller
from goqueue.model.companions import DELAYED, companion_of
from goqueue.model.errors import TooManyGroups
from goqueue.model.fairness.headcount import Headcount
from goqueue.model.security.quotas import LimitReached
from goqueue.model.security.tenant_limits import TenantLimit
from goqueue.model.security.tenants import SEPARATOR

if TYPE_CHECKING:
    from goqueue.broker.node import Node

RECOUNT_MS: Final = 1_000


class TenantLimits:
    def __init__(self, node: "Node", now_ms: Callable[[], float]) -> None:
        self._node = node
        self._now_ms = now_ms
        self._connections = Headcount()
        # When a tenant's bytes or messages were counted, and how many there were; of tenants with
        # such a limit.
        self._counted: dict[tuple[str, TenantLimit], tuple[float, int]] = {}

    def limit(self, tenant: str, limit: TenantLimit) -> float | None:
        if not tenant:
            return None
        known = self._node.security.image.tenants.get(tenant)
        return None if known is None else known.limits.get(limit.value)

    # --- topics ---------------------------------------------------------------------------

    def check_topics(self, caller: Caller, partitions: int, *, topics: int = 1) -> None:
        """Before a topic is made, or with no `topics` before one gets more partitions."""
        tenant = caller.principal.tenant
        if not tenant:
            return
        image = self._node.image
        if topics and self.limit(tenant, TenantLimit.TOPICS) is not None:
            found = sum(1 for _ in _named(tenant, image.topics))
            self._check(tenant, TenantLimit.TOPICS, found + topics)
        if self.limit(tenant, TenantLimit.PARTITIONS) is not None:
            found = sum(len(image.topics[name].partitions) for name in _named(tenant, image.topics))
            self._check(tenant, TenantLimit.PARTITIONS, found + partitions)

    # --- bytes and messages ---------------------------------------------------------------

    def check_storage(self, caller: Caller) -> None:
        """Before something is stored."""
        tenant = caller.principal.tenant
        if tenant and self.limit(tenant, TenantLimit.STORAGE) is not None:
            stored = self._recently(tenant, TenantLimit.STORAGE, self._stored_bytes)
            self._check(tenant, TenantLimit.STORAGE, stored + 1)

    def _stored_bytes(self, tenant: str) -> int:
        """Messages that are delayed on their way to its topics count, too."""
        topics = self._node.image.topics
        names = set(_named(tenant, topics))
        names |= {companion_of(DELAYED, topics[name].id) for name in names}
        return sum(
            hosted.log.size_bytes for hosted in self._node.hosted if hosted.name.topic in names
        )

    def check_in_flight(self, caller: Caller) -> None:
        """Before messages are handed out."""
        tenant = caller.principal.tenant
        if tenant and self.limit(tenant, TenantLimit.IN_FLIGHT) is not None:
            found = self._recently(tenant, TenantLimit.IN_FLIGHT, self._in_flight)
            self._check(tenant, TenantLimit.IN_FLIGHT, found + 1)

    def handed_out(self, caller: Caller, messages: int) -> None:
        """Counted at once; those that are settled, when all are counted anew."""
        key = (caller.principal.tenant, TenantLimit.IN_FLIGHT)
        counted = self._counted.get(key)
        if counted is not None:
            self._counted[key] = (counted[0], counted[1] + messages)

    def _in_flight(self, tenant: str) -> int:
        prefix, topics = tenant + SEPARATOR, self._node.image.topics_by_id
        found = 0
        for shard in self._node.queues.registry.state.loaded_shards():
            for key in shard.machine.queue_keys:
                topic = topics.get(key.topic_id)
                if topic is not None and topic.name.startswith(prefix):
                    seen = shard.machine.look(key, None, None)
                    found += 0 if seen is None else seen.in_flight
        return found

    # --- groups and connections -----------------------------------------------------------

    def check_group(self, name: str) -> None:
        """Before a group is made, or reads its first queue."""
        tenant, separator, _ = name.partition(SEPARATOR)
        if separator and self.limit(tenant, TenantLimit.GROUPS) is not None:
            found = self.groups(tenant)
            if name in found:
                return
            try:
                self._check(tenant, TenantLimit.GROUPS, len(found) + 1)
            except LimitReached as error:
                # Which group members of every kind know.
                raise TooManyGroups(error.message) from None

    def groups(self, tenant: str) -> set[str]:
        """Those that this broker coordinates, and those that have queues of what it leads."""
        queues = (key.group for key in self._node.queues.registry.queue_keys())
        return {*_named(tenant, self._node.groups.room.names()), *_named(tenant, queues)}

    def joined(self, tenant: str) -> None:
        """A connection has logged in."""
        if tenant:
            self._check(tenant, TenantLimit.CONNECTIONS, self._connections[tenant] + 1)
            self._connections.add(tenant)

    def left(self, tenant: str) -> None:
        if tenant:
            self._connections.remove(tenant)

    def _recently(self, tenant: str, limit: TenantLimit, count: Callable[[str], int]) -> int:
        now_ms = self._now_ms()
        counted_ms, found = self._counted.get((tenant, limit), (0.0, -1))
        if found < 0 or now_ms - counted_ms > RECOUNT_MS:
            found = count(tenant)
            self._counted[tenant, limit] = (now_ms, found)
        return found

    def _check(self, tenant: str, limit: TenantLimit, wanted: int) -> None:
        most = self.limit(tenant, limit)
        if most is not None and wanted > most:
            raise LimitReached(
                f"limit {limit.value}: tenant {tenant!r} has its {most:.15g} already"
            )


def _named(tenant: str, names: Iterable[str]) -> Iterator[str]:
    prefix = tenant + SEPARATOR
    return (name for name in names if name.startswith(prefix))
