"""What other brokers of the cluster ask this one to do."""

from goqueue.broker.calls.calls import ReadCall
from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.errors import GoQueueError
from goqueue.service.security.access import Access

# What a door runs: see `BrokerCalls` there.
BrokerCall = ReadCall


class CallService:
    def __init__(self, node: Node, access: Access) -> None:
        self._calls = node.calls
        self._access = access

    def read(self, caller: Caller, body: bytes) -> BrokerCall:
        """A call that another broker sent; rights were asked for where the client is."""
        return self._calls.read(self._access.acting_cluster(caller), body)

    def refusal(self, reason: GoQueueError) -> bytes:
        """An answer that says that nothing was done."""
        return self._calls.refusal(reason)
