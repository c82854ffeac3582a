"""What one operation of the protocol is to this door, and what its handler gets to see."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from goqueue.doors.closing_lines import ClosingLines
from goqueue.doors.kafka.call_room import CallRoom
from goqueue.doors.kafka.client_software import SoftwareOfConnections
from goqueue.doors.kafka.connection_quota import ConnectionQuota
from goqueue.doors.kafka.fetch_sessions import FetchSessions
from goqueue.doors.kafka.large_requests import LARGE_ELEMENTS, LargeRequests
from goqueue.doors.kafka.request_memory import RequestMemory
from goqueue.doors.kafka.rows import Rows
from goqueue.doors.kafka.sasl.sessions import SaslSessions
from goqueue.doors.kafka.share_sessions import ShareSessions
from goqueue.doors.kafka.tenant_names import CONTENTS_AT_ONCE_BYTES, tenant_names
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.doors.kafka.wire.request_header import RequestHeader
from goqueue.doors.kafka.wire.writing import Message
from goqueue.doors.lost_connections import LostConnections
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.caller import Caller
from goqueue.model.groups.messages import Client
from goqueue.model.measuring.traffic import KafkaTraffic
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

log = logging.getLogger(__name__)

T = TypeVar("T")

if TYPE_CHECKING:
    from goqueue.doors.kafka.request_limits import RequestLimits


class CloseConnection(Exception):
    """A handler's way to end the connection where the protocol has no answer to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorServices:
    """What all requests share."""

    service: BrokerService
    config: BrokerConfig
    operations: Mapping[int, "Operation"]
    fetch_sessions: FetchSessions
    share_sessions: ShareSessions
    limits: "RequestLimits"
    memory: RequestMemory
    call_room: CallRoom
    sasl: SaslSessions
    traffic: KafkaTraffic = field(default_factory=KafkaTraffic)
    software: SoftwareOfConnections = field(default_factory=SoftwareOfConnections)
    # Those that wait for something must not hold up the others.
    large_requests: LargeRequests = field(default_factory=LargeRequests)
    large_requests_that_wait: LargeRequests = field(default_factory=LargeRequests)
    # Held by the answer of very many elements that is being written.
    large_answers: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Held by who looks for names in very many bytes.
    large_contents: asyncio.Lock = field(default_factory=asyncio.Lock)
    lost: LostConnections = field(default_factory=LostConnections)
    lines: ClosingLines = field(default_factory=lambda: ClosingLines(log))

    def large_requests_like(self, operation: "Operation") -> LargeRequests:
        return self.large_requests_that_wait if operation.waits else self.large_requests


class ClientConnection(Hashable, Protocol):
    """The connection that a request came on, as handlers know it."""

    def hurrying(self, hurry: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `hurry` when a further request arrives meanwhile."""
        ...


@dataclass(slots=True)
class RequestContext:
    """Where a request comes from, and what it may use."""

    services: DoorServices
    version: int
    correlation_id: int
    caller: Caller
    # Which connection it is, for what ends with it.
    connection: ClientConnection
    # Of the request as it came.
    size_bytes: int = 0
    # What it uses is measured; None: nothing is, as of what other brokers ask.
    quota: ConnectionQuota | None = None

    @property
    def service(self) -> BrokerService:
        return self.services.service

    @property
    def client(self) -> Client:
        """As coordinators want to know it."""
        return Client(client_id=self.caller.client_id, host=f"/{self.caller.address}")


# A request is typed by its handler as kio's newest version of it. An answer of None sends nothing.
Handle = Callable[[RequestContext, Any], Awaitable[Message | None]]


def has_many_elements(message: Message) -> bool:
    """Whether it takes long to write, by the elements of all its arrays."""
    left = LARGE_ELEMENTS
    entities = [message]
    for entity in entities:
        for value in entity.values():
            if type(value) is Rows:
                left -= value.elements
            elif type(value) is list and value:
                left -= len(value)
                if type(value[0]) is dict:
                    entities += value
            if left < 0:
                return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    api_key: int
    name: str
    min_version: int
    max_version: int
    handle: Handle
    # What the caller must be allowed to do.
    needs: tuple[Need, ...]
    # Where clients want to see a lower version than is served.
    advertised_min_version: int | None = None
    # A version above the newest is answered in version 0 instead of ending the connection; the
    # handler then gets no request.
    answers_newer_versions: bool = False
    # May run while earlier requests of the connection that also overlap are still running.
    overlaps: bool = False
    # Begins in the turn of the loop that read the request and gets a task only if it waits (see
    # `eager` for what its first step must not do).
    starts_at_once: bool = False
    # Its frame may be as large as `socket.request.max.bytes`; others are held to less.
    carries_records: bool = False
    # Its elements are topics, groups, … to be made, changed or described, and parts of them, or
    # what a transaction takes in: they cost more than partitions, and are bounded by
    # `request.max.resources`.
    names_resources: bool = False
    # Tells whether an answer to a small request is large, which is then written in slices. None:
    # it never is.
    answers_with_many: Callable[[Message], bool] | None = has_many_elements
    # Waits for something else to happen, so there is no point in finishing it for a client that
    # left or at shutdown.
    waits: bool = False
    # Changes nothing, so it ends with the client that asked.
    only_reads: bool = False

    def answer(self, context: RequestContext, request: Any) -> Awaitable[Message | None]:
        """As `handle`. Who has a tenant speaks of things by names that only its tenant knows."""
        if not context.caller.principal.tenant:
            return self.handle(context, request)
        return self._answer_tenant(context, request)

    async def _answer_tenant(self, context: RequestContext, request: Any) -> Message | None:
        names = tenant_names(self.api_key, context.version)
        if request is not None:
            asked = names.contents_asked(request)
            request = await _renamed(context, names.inner, request, asked)
        message = await self.handle(context, request)
        if message is None:
            return None
        return await _renamed(context, names.local, message, names.contents_told(message))


async def _renamed(
    context: RequestContext, rename: Callable[[T, str], T], value: T, contents_bytes: int
) -> T:
    tenant = context.caller.principal.tenant
    if contents_bytes <= CONTENTS_AT_ONCE_BYTES:
        return rename(value, tenant)
    # Megabytes of names take seconds. One at a time, as a thread takes turns with the event loop.
    async with context.services.large_contents:
        return await asyncio.to_thread(rename, value, tenant)


def recognised(operations: Mapping[int, Operation], header: RequestHeader) -> Operation:
    """The operation that a request is for, in a version that is answered."""
    operation = operations.get(header.api_key)
    if operation is None:
        raise Malformed(f"unknown API key {header.api_key}")
    if operation.min_version <= header.version <= operation.max_version:
        return operation
    if operation.answers_newer_versions and header.version > operation.max_version:
        return operation
    raise Malformed(f"{operation.name} version {header.version} is not served")
