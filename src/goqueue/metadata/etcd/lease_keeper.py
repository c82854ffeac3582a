"""Keeps a lease alive from a thread of its own, as long as the event loop is alive, too.

A loop that is busy for a second must not cost a broker its registration. A process that renews its
lease and serves nobody is worse than a dead one: the thread stops renewing when the loop stands
still, and the cluster elects others.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import grpc

from goqueue.metadata.etcd import messages
from goqueue.metadata.etcd.client import (
    AUTHENTICATE,
    LEASE_KEEP_ALIVE,
    EtcdAddress,
    blocking_channel,
    deserializer,
    serialized,
)
from goqueue.metadata.lease_renewal import RENEWALS_A_LEASE
from goqueue.metadata.store import LeaseId

logger = logging.getLogger(__name__)

# With three members, one that is cut off costs less than the time between renewals of 3 s leases.
_TRY_S: Final = 0.5
# How often the loop says that it is alive, as a part of how long it may stand still.
_TICKS_A_STALL: Final = 8


class LeaseKeeper:
    """Start it on the event loop that it watches. `on_lost` is called there, once."""

    def __init__(
        self,
        address: EtcdAddress,
        lease: LeaseId,
        ttl_ms: int,
        *,
        stall_max_ms: int,
        on_lost: Callable[[], None],
    ) -> None:
        self._address = address
        self._lease = lease
        self._renew_s = ttl_ms / 1_000 / RENEWALS_A_LEASE
        self._stall_max_s = stall_max_ms / 1_000
        self._on_lost = on_lost
        self.renewed_at_s = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._ticked_at = time.monotonic()
        self._tick: asyncio.TimerHandle | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)

    def start(self) -> None:
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing; the lease itself is the caller's to revoke."""
        self._stop.set()
        if self._tick is not None:
            self._tick.cancel()

    def _beat(self) -> None:
        self._ticked_at = time.monotonic()
        self._tick = self._loop.call_later(self._stall_max_s / _TICKS_A_STALL, self._beat)

    def _run(self) -> None:
        renewals = _Renewals(self._address, self._lease)
        try:
            while not self._stop.is_set():
                stalled_s = time.monotonic() - self._ticked_at
                if stalled_s > self._stall_max_s:
                    logger.error("the event loop stands still for %.1f s: not renewed", stalled_s)
                elif (ttl_s := renewals.renew()) is not None:
                    if ttl_s <= 0:
                        self._loop.call_soon_threadsafe(self._on_lost)
                        return
                    self.renewed_at_s = time.monotonic()
                self._stop.wait(self._renew_s)
        finally:
            renewals.close()


class _Renewals:
    """Blocking calls on connections of their own: the event loop has no part in them."""

    def __init__(self, address: EtcdAddress, lease: LeaseId) -> None:
        self._address = address
        self._request = messages.LeaseKeepAliveRequest(ID=lease)
        self._channels = [blocking_channel(endpoint, address) for endpoint in address.endpoints]
        self._token: str | None = None
        self._is_failing = False

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    def renew(self) -> int | None:
        """Ask one member after the other for how long the lease goes on, in seconds.

        None if no member answers; 0 where the lease is gone for good.
        """
        problem = "no member answers"
        for channel in self._channels:
            try:
                ttl_s: int = self._ask(channel).TTL
            except grpc.RpcError as error:
                self._token = None
                problem = error.details() if isinstance(error, grpc.Call) else str(error)
            else:
                # The member that answered is asked first next time.
                self._channels.remove(channel)
                self._channels.insert(0, channel)
                self._is_failing = False
                return ttl_s
        # Once for an outage: it may last for long, and this is tried each second.
        if not self._is_failing:
            self._is_failing = True
            logger.warning("the lease cannot be renewed, tried again: %s", problem)
        return None

    def _ask(self, channel: grpc.Channel) -> Any:
        if self._address.user and self._token is None:
            request = messages.AuthenticateRequest(
                name=self._address.user, password=self._address.password
            )
            authenticate = channel.unary_unary(
                AUTHENTICATE.path, serialized, deserializer(AUTHENTICATE)
            )
            self._token = authenticate(request, timeout=_TRY_S).token
        keep_alive = channel.stream_stream(
            LEASE_KEEP_ALIVE.path, serialized, deserializer(LEASE_KEEP_ALIVE)
        )
        metadata = (("token", self._token),) if self._token is not None else None
        answers = keep_alive(iter((self._request,)), timeout=_TRY_S, metadata=metadata)
        try:
            return next(answers)
        finally:
            answers.cancel()
