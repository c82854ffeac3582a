"""What a connection's client is held to, and how it is held back (KIP-219).

A request is answered at once, with the time that the client should wait. Then the connection is not
read from for as long, since clients may not care (librdkafka does not).
"""

import asyncio
from collections.abc import Callable
from typing import Final

from goqueue.doors.kafka.holds import QUOTA
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.caller import Caller, Principal
from goqueue.model.fairness.parties import party_of
from goqueue.model.security.quotas import QuotaKind
from goqueue.service.security.quotas import Bucket, ClientQuota, QuotaService

# Most requests take a twentieth of it: it is charged for several together, as charging takes time
# as well, and for the rest when the connection ends or becomes somebody else's.
SPENT_AT_ONCE_SECONDS: Final = 0.001


def _nothing(_reason: str) -> None:
    """For a connection that is no more."""


class ConnectionQuota:
    """What requests use is charged here as handlers tell of it. Who is beyond its quota waits, and
    so does everything else on its connection: answers that are given meanwhile say how long."""

    __slots__ = (
        "_caller",
        "_client",
        "_fetched",
        "_go_on",
        "_hold",
        "_joined_as",
        "_produced",
        "_quotas",
        "_spent_seconds",
        "_timer",
        "_until",
        "_version",
        "party",
        "requests",
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
        # Those of the client that are charged with every request.
        self._produced: tuple[Bucket, ...] = ()
        self._fetched: tuple[Bucket, ...] = ()
        # Empty: time is not measured.
        self.requests: tuple[Bucket, ...] = ()
        self._spent_seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0

    def connected(self, address: str) -> None:
        self.mute(self._quotas.connected(address))

    def of(self, caller: Caller) -> "ConnectionQuota | None":
        """For one request; None: nothing is measured."""
        if caller is not self._caller or self._version != self._quotas.ledger.version:
            self._look_up(caller)
        return None if self._client is None else self

    def _look_up(self, caller: Caller) -> None:
        self._charge_spent()
        if caller.principal is not self._joined_as:
            self._join(caller.principal)
        self._caller = caller
        self._client = client = self._quotas.of_client(caller)
        self._produced = () if client is None else client.produced
        self._fetched = () if client is None else client.fetched
        self.requests = () if client is None else client.requests
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

    # --- what requests use ----------------------------------------------------------------

    def produced(self, size_bytes: int) -> None:
        """The request as a whole counts, as in Kafka."""
        for bucket in self._produced:
            wait_ms = bucket.charge(size_bytes, self._quotas.now_ms())
            if wait_ms:
                self._throttle(QuotaKind.PRODUCED, wait_ms)

    def fetched(self, size_bytes: int) -> None:
        for bucket in self._fetched:
            wait_ms = bucket.charge(size_bytes, self._quotas.now_ms())
            if wait_ms:
                self._throttle(QuotaKind.FETCHED, wait_ms)

    def spent(self, seconds: float) -> None:
        """Of the event loop's time."""
        self._spent_seconds += seconds
        if self._spent_seconds >= SPENT_AT_ONCE_SECONDS:
            self._charge_spent()

    def _charge_spent(self) -> None:
        spent, self._spent_seconds = self._spent_seconds, 0.0
        for bucket in self.requests:
            wait_ms = bucket.charge(spent * 100, self._quotas.now_ms())
            if wait_ms:
                self._throttle(QuotaKind.REQUESTS, wait_ms)

    def changed_partitions(self) -> None:
        """The service has counted them."""
        if self._client is not None:
            self.mute(self._client.wait_ms(QuotaKind.MUTATIONS, self._quotas.now_ms()))

    def may_fetch(self) -> bool:
        """False: nothing is read for it now, and it waits."""
        for bucket in self._fetched:
            if bucket.tokens < 0 and (wait_ms := bucket.wait_ms(self._quotas.now_ms())):
                self.mute(wait_ms)
                return False
        return True

    def fetch_max_bytes(self, asked: int) -> int:
        """No more at once than may be used at once, so that clients hear from the broker often."""
        for bucket in self._fetched:
            if bucket.burst < asked:
                asked = int(bucket.burst)
        return asked

    def _throttle(self, kind: QuotaKind, wait_ms: int) -> None:
        self._quotas.ledger.throttled_ms[kind] += wait_ms
        self.mute(wait_ms)

    # --- holding back ---------------------------------------------------------------------

    def told(self, answer: Message | None) -> Message | None:
        """An answer, with the time that the client should wait."""
        if self._timer is None or answer is None:
            return answer
        wait_ms = int((self._until - asyncio.get_running_loop().time()) * 1000)
        return {**answer, "throttle_time": wait_ms} if wait_ms > 0 else answer

    def mute(self, wait_ms: int) -> None:
        if not wait_ms:
            return
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
        # Both know the connection, which is to be freed without a look for cycles.
        self._hold = self._go_on = _nothing
        self._charge_spent()
        if self._timer is not None:
            self._timer.cancel()
        self._leave()
