"""Connections to other brokers: a few for each, made on first need, used by one call at a time.

A broker answers the requests of one connection in turn. With a few of them, a question that is
answered at once does not wait behind one that waits for a commit.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.model.client_security import ClientSecurity, SecurityOf, no_security
from goqueue.model.errors import BrokerUnreachable
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.security.errors import AuthenticationFailed, not_let_in
from goqueue.state.metadata_image import MetadataImage

if TYPE_CHECKING:
    import ssl

    from kio.static.protocol import RequestPayload, ResponsePayload

    from goqueue.client.connection import Connection

Response = TypeVar("Response", bound="ResponsePayload")
Address = tuple[str, int]

# For one other broker. Calls beyond wait for their turn, within their own time.
CONNECTIONS_MAX: Final = 8
# Longer than a partition's leader waits for a commit on behalf of another broker.
CALL_TIMEOUT_S: Final = 15.0


class Peers:
    def __init__(
        self,
        node_id: NodeId,
        image: Callable[[], MetadataImage],
        security: SecurityOf = no_security,
    ) -> None:
        self._security = security
        self._node_id = node_id
        self._image = image
        self._idle: dict[Address, list[Connection]] = defaultdict(list)
        self._turns: dict[Address, asyncio.Semaphore] = {}
        self._is_closed = False

    def leader_elsewhere(self, place: TopicPartition) -> NodeId | None:
        """Who leads a partition that this broker does not; None for what is here or nowhere.

        A call to a partition's leader while it has none ends as one to a broker that is away.
        """
        topic = self._image().topics.get(place.topic)
        if topic is None or not 0 <= place.partition < len(topic.partitions):
            return None
        leader = topic.partitions[place.partition].leader
        return None if leader == self._node_id else leader

    async def call(
        self,
        node_id: NodeId,
        request: "RequestPayload",
        response_type: type[Response],
        *,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Response:
        """Ask a broker; `BrokerUnreachable` if it does not answer, whatever it did meanwhile."""
        address = self._address(node_id)
        calling = self._call_within(timeout_s, address, request, response_type)
        try:
            # A task of its own: whoever asks may be none, and time-outs are for tasks.
            return await asyncio.create_task(calling)
        except TimeoutError:
            raise BrokerUnreachable(
                f"broker {node_id} did not answer within {timeout_s:g} s"
            ) from None

    async def _call_within(
        self,
        timeout_s: float,
        address: Address,
        request: "RequestPayload",
        response_type: type[Response],
    ) -> Response:
        async with asyncio.timeout(timeout_s), self._turn(address):
            return await self._call(address, request, response_type)

    def _address(self, node_id: NodeId) -> Address:
        broker = self._image().brokers.get(node_id)
        if broker is None:
            raise BrokerUnreachable(f"broker {node_id} is not there")
        return broker.host, broker.kafka_port

    def _turn(self, address: Address) -> asyncio.Semaphore:
        known = {(broker.host, broker.kafka_port) for broker in self._image().brokers.values()}
        for gone in self._turns.keys() - known - {address}:
            del self._turns[gone]
            _drop(self._idle.pop(gone, []))
        return self._turns.setdefault(address, asyncio.Semaphore(CONNECTIONS_MAX))

    async def _call(
        self, address: Address, request: "RequestPayload", response_type: type[Response]
    ) -> Response:
        idle = self._idle[address]
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                break
            connection.drop()
        else:
            connection = await _connect(address, self._security(*address))
        try:
            response = await connection.call(request, response_type)
        except BaseException:
            # Its next answer may be the one that nobody waited for.
            connection.drop()
            raise
        if self._is_closed or self._idle.get(address) is not idle:
            # The broker has another address by now: nobody would use this connection again.
            connection.drop()
        else:
            idle.append(connection)
        return response

    def close(self) -> None:
        self._is_closed = True
        for connections in self._idle.values():
            _drop(connections)
        self._idle.clear()


async def _connect(address: Address, security: ClientSecurity) -> "Connection":
    from goqueue.client.connection import Connection

    try:
        return await Connection.open(*address, security)
    except AuthenticationFailed as error:
        raise not_let_in(address, error) from error


async def log_in_to(
    address: Address,
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    security: ClientSecurity,
) -> None:
    """On a connection that was made elsewhere; `BrokerUnreachable` where it does not let us in."""
    from goqueue.client.connection import Connection

    try:
        await Connection(*streams, f"{address[0]}:{address[1]}").log_in(security)
    except AuthenticationFailed as error:
        raise not_let_in(address, error) from error


def tls_between_brokers(security: ClientSecurity) -> "ssl.SSLContext | None":
    """For a connection on which nothing is said. None: without TLS."""
    from goqueue.client.tls import tls_context

    return tls_context(security)


def _drop(connections: "list[Connection]") -> None:
    for connection in connections:
        connection.drop()
