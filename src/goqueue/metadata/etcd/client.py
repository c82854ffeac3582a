"""Calls to etcd: several addresses, TLS, log-in, and errors in our own words.

A call goes to a member that is connected. When it fails after it was sent, nobody knows whether it
took effect: reads are asked again elsewhere, changes are not.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from goqueue.metadata.etcd import messages
from goqueue.model.errors import (
    GoQueueError,
    InvalidRequest,
    LeaseNotFound,
    MetadataUnavailable,
    ShuttingDown,
)
from goqueue.model.measuring.histograms import Histogram

logger = logging.getLogger(__name__)

# gRPC waits up to two minutes between tries; by then every broker has lost its lease.
_OPTIONS: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A member that is cut off is noticed within seconds, also while nothing is asked.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # A page of keys, or the events of a burst of revisions. etcd takes at most 1.5 MiB a request.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # Each store has connections of its own, so that one that is closed disturbs no other.
    ("grpc.use_local_subchannel_pool", 1),
)

# A member that is gone answers at once, one that is cut off never does.
_TRY_S: Final = 3.0

# A store that is known to be away is not waited for as if it might answer: requests of clients hang
# on some calls, and whoever follows the store notices when it is back.
_AWAY_S: Final = 0.5

_MESSAGES_OF_LEASES: Final = "requested lease not found"
_TOKEN_IS_OLD: Final = "invalid auth token"


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdAddress:
    """Where etcd is, and how to speak to it."""

    endpoints: tuple[str, ...]
    # All keys of this cluster stand below it, so that clusters can share an etcd.
    prefix: str = ""
    # How long one call may take in all before the store counts as unavailable.
    call_timeout_s: float = 5.0
    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    user: str = ""
    password: str = ""

    @property
    def has_tls(self) -> bool:
        return self.ca is not None or self.certificate is not None


@dataclass(frozen=True, slots=True)
class Method:
    """One call of etcd's API."""

    path: str
    answer: str
    # Whether asking twice is the same as asking once.
    is_read: bool = False


RANGE: Final = Method("/etcdserverpb.KV/Range", "RangeResponse", is_read=True)
TXN: Final = Method("/etcdserverpb.KV/Txn", "TxnResponse")
WATCH: Final = Method("/etcdserverpb.Watch/Watch", "WatchResponse")
LEASE_GRANT: Final = Method("/etcdserverpb.Lease/LeaseGrant", "LeaseGrantResponse")
LEASE_REVOKE: Final = Method("/etcdserverpb.Lease/LeaseRevoke", "LeaseRevokeResponse")
LEASE_KEEP_ALIVE: Final = Method("/etcdserverpb.Lease/LeaseKeepAlive", "LeaseKeepAliveResponse")
AUTHENTICATE: Final = Method(
    "/etcdserverpb.Auth/Authenticate", "AuthenticateResponse", is_read=True
)
STATUS: Final = Method("/etcdserverpb.Maintenance/Status", "StatusResponse", is_read=True)


class EtcdClient:
    def __init__(self, address: EtcdAddress) -> None:
        self._address = address
        self._channels = [_channel(endpoint, address) for endpoint in address.endpoints]
        self._preferred = 0
        self._token: str | None = None
        self._is_closed = False
        # Why the last call did not get through; None when it did.
        self.failure: str | None = None
        self.latencies = Histogram()

    async def close(self) -> None:
        self._is_closed = True
        for channel in self._channels:
            await channel.close()

    async def call(self, method: Method, request: Any) -> Any:
        """One question, one answer."""

        async def ask(channel: grpc.aio.Channel, metadata: list[tuple[str, str]]) -> Any:
            stub = channel.unary_unary(
                method.path,
                request_serializer=serialized,
                response_deserializer=deserializer(method),
            )
            return await stub(request, metadata=metadata, timeout=_TRY_S)

        # Also of those that fail: that etcd is slow shows in its time-outs first.
        started = time.perf_counter()
        try:
            return await self._try(method, ask)
        finally:
            self.latencies.observe(time.perf_counter() - started)

    async def call_once(self, method: Method, request: Any) -> Any:
        """The first answer of a stream; keeping a lease alive is one, in etcd."""

        async def ask(channel: grpc.aio.Channel, metadata: list[tuple[str, str]]) -> Any:
            stub = channel.stream_stream(
                method.path,
                request_serializer=serialized,
                response_deserializer=deserializer(method),
            )
            stream = stub(metadata=metadata, timeout=_TRY_S)
            try:
                await stream.write(request)
                answer = await stream.read()
            finally:
                stream.cancel()
            if answer is grpc.aio.EOF:
                raise MetadataUnavailable("etcd ended a stream without an answer")
            return answer

        return await self._try(method, ask)

    async def stream(self, method: Method, request: Any) -> AsyncIterator[Any]:
        """Answers until the connection ends, which raises `MetadataUnavailable`."""
        channel = await self._connected(asyncio.get_running_loop().time() + _TRY_S)
        stub = channel.stream_stream(
            method.path, request_serializer=serialized, response_deserializer=deserializer(method)
        )
        stream = stub(metadata=await self._metadata(method))
        try:
            await stream.write(request)
            while (answer := await stream.read()) is not grpc.aio.EOF:
                self.failure = None
                yield answer
        except grpc.aio.AioRpcError as error:
            raise self._translated(error) from None
        finally:
            stream.cancel()
        raise self._unavailable("etcd ended the stream")

    # --- which member, and how often ------------------------------------------------------

    async def _try(
        self, method: Method, ask: Callable[[grpc.aio.Channel, list[tuple[str, str]]], Any]
    ) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._address.call_timeout_s
        while True:
            patience_s = _AWAY_S if self.failure is not None else self._address.call_timeout_s
            channel = await self._connected(min(deadline, loop.time() + patience_s))
            try:
                answer = await ask(channel, await self._metadata(method))
            except grpc.aio.AioRpcError as error:
                if _TOKEN_IS_OLD in (error.details() or "") and self._token is not None:
                    # It expired, or etcd was restarted. Nothing was done.
                    self._token = None
                    continue
                problem = self._translated(error)
                self._preferred = (self._preferred + 1) % len(self._channels)
                if not problem.retriable or not method.is_read or loop.time() >= deadline:
                    raise problem from None
            except asyncio.CancelledError:
                if self._is_closed:
                    raise ShuttingDown("the metadata store is closed") from None
                raise
            else:
                self.failure = None
                return answer

    async def _connected(self, deadline: float) -> grpc.aio.Channel:
        """A channel that is connected: nothing is sent into one that may never be."""
        if self._is_closed:
            raise ShuttingDown("the metadata store is closed")
        ready = grpc.ChannelConnectivity.READY
        preferred = self._channels[self._preferred]
        if preferred.get_state(try_to_connect=True) is ready:
            return preferred
        loop = asyncio.get_running_loop()
        while loop.time() < deadline:
            states = [channel.get_state(try_to_connect=True) for channel in self._channels]
            if ready in states:
                self._preferred = states.index(ready)
                return self._channels[self._preferred]
            changes = [
                asyncio.ensure_future(channel.wait_for_state_change(state))
                for channel, state in zip(self._channels, states, strict=True)
            ]
            try:
                await asyncio.wait(
                    changes,
                    timeout=max(deadline - loop.time(), 0.001),
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                for change in changes:
                    change.cancel()
                await asyncio.gather(*changes, return_exceptions=True)
            if self._is_closed:
                raise ShuttingDown("the metadata store is closed")
        raise self._unavailable("cannot connect")

    async def _metadata(self, method: Method) -> list[tuple[str, str]]:
        if not self._address.user or method is AUTHENTICATE:
            return []
        if self._token is None:
            request = messages.AuthenticateRequest(
                name=self._address.user, password=self._address.password
            )
            self._token = (await self.call(AUTHENTICATE, request)).token
        return [("token", self._token)]

    # --- errors ---------------------------------------------------------------------------

    def _translated(self, error: grpc.aio.AioRpcError) -> GoQueueError:
        details = error.details() or error.code().name
        if self._is_closed:
            return ShuttingDown("the metadata store is closed")
        if _MESSAGES_OF_LEASES in details:
            return LeaseNotFound("the lease does not exist or has expired")
        match error.code():
            case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.OUT_OF_RANGE:
                return InvalidRequest(f"etcd refuses the request: {details}")
            case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
                return self._unavailable(f"etcd does not let us in: {details}")
        return self._unavailable(details)

    def _unavailable(self, reason: str) -> MetadataUnavailable:
        self.failure = f"etcd at {', '.join(self._address.endpoints)}: {reason}"
        return MetadataUnavailable(self.failure)


def _channel(endpoint: str, address: EtcdAddress) -> grpc.aio.Channel:
    if not address.has_tls:
        return grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
    return grpc.aio.secure_channel(endpoint, _credentials(address), options=_OPTIONS)


def blocking_channel(endpoint: str, address: EtcdAddress) -> grpc.Channel:
    """For a thread of its own."""
    if not address.has_tls:
        return grpc.insecure_channel(endpoint, options=_OPTIONS)
    return grpc.secure_channel(endpoint, _credentials(address), options=_OPTIONS)


def _credentials(address: EtcdAddress) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(address.ca, address.key, address.certificate)


def serialized(message: Any) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded


def deserializer(method: Method) -> Callable[[bytes], Any]:
    decoded: Callable[[bytes], Any] = getattr(messages, method.answer).FromString
    return decoded
