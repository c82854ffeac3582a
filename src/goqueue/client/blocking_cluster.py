"""A thread's connections to the brokers of a cluster, made when needed and anew when lost."""

from types import TracebackType
from typing import Self

from kio.schema.metadata.v12.response import MetadataResponse

from goqueue.client.addresses import parse_addresses
from goqueue.client.blocking_connection import BlockingConnection, first_reachable
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.questions import Address, broker_addresses, metadata_request
from goqueue.model.client_security import NO_SECURITY, ClientSecurity


class LeaderMoved(BrokerUnreachable):
    """Ask again: another broker leads the partition, or will soon."""


class BlockingCluster:
    def __init__(self, bootstrap_servers: str, security: ClientSecurity = NO_SECURITY) -> None:
        self._bootstrap = parse_addresses(bootstrap_servers)
        self.security = security
        self._addresses: dict[int, Address] = {}
        self._connections: dict[Address, BlockingConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def any_broker(self) -> BlockingConnection:
        """The first of the bootstrap addresses that answers."""
        return first_reachable(self._bootstrap, self.at)

    def at(self, address: Address) -> BlockingConnection:
        """A connection to whoever listens there; do not keep it."""
        if address not in self._connections:
            self._connections[address] = BlockingConnection(*address, self.security)
        return self._connections[address]

    def node(self, number: int, what: str) -> BlockingConnection:
        """A connection to a broker that metadata named as the leader of `what`."""
        if number not in self._addresses:
            raise LeaderMoved(f"no broker leads {what} at the moment")
        return self.at(self._addresses[number])

    def metadata(self, names: list[str] | None, *, makes_topics: bool = False) -> MetadataResponse:
        asked = metadata_request(names, makes_topics=makes_topics)
        response = self.any_broker().call(asked, MetadataResponse)
        self._addresses = broker_addresses(response)
        return response
