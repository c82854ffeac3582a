"""What a connection's client is held to, and how it is held back (KIP-219).

A request is answered at once, with the time that the client should wait. Then the connection is not
read from for as long, since clients may not care (librdkafka does not).
"""

import asyncio
from collections.abc import Awaitable, Callable

from goqueue.doors.kafka.holds import QUOTA
from goqueue.doors.kafka.wire.writing import Message
from goqueue.doors.loop_time import timed
from goqueue.model.caller import Caller, Principal
from goqueue.model.security.quotas import QuotaKind
from goqueue.service.security.quotas import ClientQuota, QuotaService, party_of


def _nothing(_reason: str) -> None:
    """For a connection that is no more."""


class ConnectionQuota:
    __slots__ = (
        "_caller",
        "_client",
        "_go_on",
        "_hold",
        "_joined_as",
        "_quotas",
        "_timer",
        "_until",
        "_version",
        "party",
    )

    def __init__(
        self,
        quotas: QuotaService,
        hold: Callable[[str], None],
        go_on: Callable[[str], None],
    ) -> None:
        """`hold` stops the connection for a reason, `go_on` ends that."""
        self._quotas = quotas
        self._hold = hold
        self._go_on = go_on
        self._version = -1
        self._caller: Caller | None = None
        self._joined_as: Principal | None = None
        self.party = ""
        self._client: ClientQuota | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0

    def connected(self, address: str) -> None:
        wait_ms = self._quotas.connected(address)
        if wait_ms:
            self.mute(wait_ms)

    def of(self, caller: Caller, size_bytes: int) -> "RequestQuota | None":
        """For one request; None: nothing is measured."""
        if caller is not self._caller or self._version != self._quotas.ledger.version:
            self._look_up(caller)
        client = self._client
        return None if client is None else RequestQuota(self, client, self._quotas, size_bytes)

    def _look_up(self, caller: Caller) -> None:
        if caller.principal is not self._joined_as:
            self._join(caller.principal)
        self._caller = caller
        self._client = self._quotas.of_client(caller)
        # After: looking for it may have made others be forgotten.
        self._version = self._quotas.ledger.version

    def _join(self, principal: Principal) -> None:
        """Raises `LimitReached`."""
        self._leave()
        if self._hold is _nothing:
            # Its connection was lost while it was being read.
            return
        self._quotas.joined(principal)
        self._joined_as = principal
        self.party = party_of(principal)

    def _leave(self) -> None:
        if self._joined_as is not None:
            self._quotas.left(self._joined_as)
            self._joined_as = None

    def mute(self, wait_ms: int) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_ms / 1000
        if until <= self._until:
            return
        if self._timer is None:
            self._hold(QUOTA)
        else:
            self._timer.cancel()
        self._until = until
        self._timer = loop.call_at(until, self._unmute)

    def _unmute(self) -> None:
        self._timer = None
        self._go_on(QUOTA)

    def end(self) -> None:
        """The connection is lost."""
        if self._timer is not None:
            self._timer.cancel()
        # Both know the connection, which is to be freed without a look for cycles.
        self._hold = self._go_on = _nothing
        self._leave()


class RequestQuota:
    """What one request uses; handlers say what they did."""

    __slots__ = ("_client", "_connection", "_quotas", "_size_bytes", "_until_ms", "is_exempt")

    def __init__(
        self,
        connection: ConnectionQuota,
        client: ClientQuota,
        quotas: QuotaService,
        size_bytes: int,
    ) -> None:
        self._connection = connection
        self._client = client
        self._quotas = quotas
        self._size_bytes = size_bytes
        self._until_ms = 0.0
        # Asked by another broker.
        self.is_exempt = False

    async def handled(self, work: Awaitable[Message | None]) -> Message | None:
        """What `work` answers, with the time that the client should wait."""
        client = self._client
        answer = await (timed(work, self._spent) if client.requests else work)
        if not self._until_ms or answer is None:
            return answer
        wait_ms = int(self._until_ms - self._quotas.now_ms())
        return {**answer, "throttle_time": wait_ms} if wait_ms > 0 else answer

    def produced(self) -> None:
        """The request as a whole counts, as in Kafka."""
        now_ms = self._quotas.now_ms()
        for bucket in self._client.produced:
            wait_ms = bucket.charge(self._size_bytes, now_ms)
            if wait_ms:
                self._throttle(QuotaKind.PRODUCED, wait_ms)

    def fetched(self, size_bytes: int) -> None:
        now_ms = self._quotas.now_ms()
        for bucket in self._client.fetched:
            wait_ms = bucket.charge(size_bytes, now_ms)
            if wait_ms:
                self._throttle(QuotaKind.FETCHED, wait_ms)

    def _spent(self, seconds: float) -> None:
        if self.is_exempt:
            return
        now_ms = self._quotas.now_ms()
        for bucket in self._client.requests:
            wait_ms = bucket.charge(seconds * 100, now_ms)
            if wait_ms:
                self._throttle(QuotaKind.REQUESTS, wait_ms)

    def changed_partitions(self) -> None:
        """The service has counted them."""
        self._wait(self._client.wait_ms(QuotaKind.MUTATIONS, self._quotas.now_ms()))

    def may_fetch(self) -> bool:
        """False: nothing is read for it now, and it waits."""
        wait_ms = self._client.wait_ms(QuotaKind.FETCHED, self._quotas.now_ms())
        self._wait(wait_ms)
        return not wait_ms

    def fetch_max_bytes(self, asked: int) -> int:
        """No more at once than may be used at once, so that clients hear from the broker often."""
        burst = self._client.burst(QuotaKind.FETCHED)
        return asked if burst is None else min(asked, int(burst))

    def _throttle(self, kind: QuotaKind, wait_ms: int) -> None:
        self._quotas.ledger.throttled_ms[kind] += wait_ms
        self._wait(wait_ms)

    def _wait(self, wait_ms: int) -> None:
        if wait_ms:
            self._until_ms = max(self._until_ms, self._quotas.now_ms() + wait_ms)
            self._connection.mute(wait_ms)
