"""Room for further groups at their coordinator, and for more bytes of those that are there."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from goqueue.broker.groups.rebalance_watch import WatchedGroupMachine
from goqueue.broker.runtime.shard import StateShard
from goqueue.broker.runtime.topic import ShardHost
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import TooManyGroups
from goqueue.model.fairness.amounts import room_for
from goqueue.model.fairness.named_shares import NamedShares


class GroupRoom:
    """`shards`: those that are loaded here."""

    def __init__(
        self,
        host: ShardHost,
        config: BrokerConfig,
        shards: Callable[[], Sequence[StateShard[WatchedGroupMachine]]],
    ) -> None:
        self._host = host
        self._shards = shards
        self._shares = NamedShares(
            lambda: host.image.security.tenants, is_secured=config.security_enabled
        )
        # Raises where a tenant's limit lets no further group be made.
        self.check_limit: Callable[[str], None] = lambda _name: None
        self.use_settings(config)

    def use_settings(self, config: BrokerConfig) -> None:
        self._max_groups, self._max_bytes = config.max_groups, config.all_groups_max_bytes

    def names(self) -> Iterator[str]:
        """Of all groups that are coordinated here."""
        return (name for each in self._shards() for name in each.machine.group_names)

    def check(self, group: str, *, administers_cluster: bool) -> None:
        """Before it is made. `administers_cluster`: who asks does."""
        self.check_limit(group)
        known = sum(len(each.machine.group_names) for each in self._shards())
        refusal = self._shares.refusal(
            group,
            self._max_groups,
            known,
            lambda: ((name, 1) for name in self.names()),
            self._host.clock_ms(),
            administers_cluster=administers_cluster,
        )
        if refusal is not None:
            raise TooManyGroups(
                f"group {group!r} would be one more than the {known} there are; max.groups is "
                f"{self._max_groups}{refusal}"
            )

    def spare_bytes(self, group: str) -> int:
        """How much larger it may become."""
        shards, tenants = self._shards(), self._host.image.security.tenants
        spare_bytes = self._max_bytes - sum(shard.machine.held_bytes for shard in shards)
        if not tenants or spare_bytes > self._max_bytes // 2:
            return spare_bytes
        held = chain.from_iterable(shard.machine.held_by_owners for shard in shards)
        return room_for(group, self._max_bytes, held, tenants)
