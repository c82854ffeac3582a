"""The cluster and its brokers: described, configured, measured."""

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.coordinators import CoordinatorKind
from goqueue.model.topics import BrokerView
from goqueue.service.access import Access
from goqueue.service.routing import Routing


class Administration:
    def __init__(self, node: Node, access: Access, routing: Routing) -> None:
        self._node = node
        self._access = access
        self._routing = routing

    def coordinator(self, caller: Caller, kind: CoordinatorKind, key: str) -> BrokerView | None:
        """The broker that looks after a group, a transactional id or a share group's state."""
        if kind is CoordinatorKind.TRANSACTION:
            self._access.describable_transactional_id(caller, key)
            leader = self._routing.transaction_coordinator(key)
        elif kind is CoordinatorKind.GROUP:
            self._access.describable_group(caller, key)
            leader = self._routing.group_coordinator(key)
        else:
            # Only brokers look for these.
            self._access.acting_cluster(caller)
            leader = self._routing.group_coordinator(key)
        return self._node.image.brokers.get(leader)
