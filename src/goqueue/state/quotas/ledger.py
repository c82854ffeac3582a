"""All that is measured at one broker: the buckets of everybody who is held to a quota."""

from collections import Counter
from collections.abc import Mapping
from heapq import nlargest
from typing import Final, NamedTuple

from goqueue.model.caller import Principal
from goqueue.model.security.quotas import Quota, QuotaKind, QuotaOwner, QuotaUsage
from goqueue.model.security.tenant_limits import RATES
from goqueue.model.security.tenants import Tenant
from goqueue.state.quotas.bucket import Bucket
from goqueue.state.quotas.precedence import Held, QuotaTable

# A client can call itself anything, and each name may have a bucket of some 300 bytes, and all are
# looked at for the metrics, which takes milliseconds. Those who
# come when there are as many share one of each kind, so that no debt is forgotten for them.
ENTITIES_MAX: Final = 10_000
# Forgetting looks at all of them, which takes milliseconds: not before there are twice as many as
# were left the last time, and not all the time while nobody is idle.
FORGET_FROM: Final = 1_000
FORGET_EVERY_MS: Final = 1_000
_OTHERS: Final = QuotaOwner()
_BROKER: Final = QuotaOwner(ip="")
_CLIENT_KINDS: Final = (
    QuotaKind.PRODUCED,
    QuotaKind.FETCHED,
    QuotaKind.REQUESTS,
    QuotaKind.MUTATIONS,
)


class Windows(NamedTuple):
    """How many seconds of a quota may be used at once."""

    usual_s: float
    mutations_s: float


class ClientQuota:
    """What one client is held to: by kind its own bucket, that of its tenant, both or none."""

    __slots__ = ("_ledger", "fetched", "mutations", "produced", "requests")

    def __init__(self, ledger: "Ledger", buckets: Mapping[QuotaKind, tuple[Bucket, ...]]) -> None:
        self._ledger = ledger
        self.produced = buckets[QuotaKind.PRODUCED]
        self.fetched = buckets[QuotaKind.FETCHED]
        self.requests = buckets[QuotaKind.REQUESTS]
        self.mutations = buckets[QuotaKind.MUTATIONS]

    def charge(self, kind: QuotaKind, amount: float, now_ms: float) -> int:
        """Use something up; returns how long to wait before more is asked for."""
        wait_ms = 0
        for bucket in self._of(kind):
            wait_ms = max(wait_ms, bucket.charge(amount, now_ms))
        if wait_ms:
            self._ledger.throttled_ms[kind] += wait_ms
        return wait_ms

    def wait_ms(self, kind: QuotaKind, now_ms: float) -> int:
        return max((bucket.wait_ms(now_ms) for bucket in self._of(kind)), default=0)

    def _of(self, kind: QuotaKind) -> tuple[Bucket, ...]:
        if kind is QuotaKind.PRODUCED:
            return self.produced
        if kind is QuotaKind.FETCHED:
            return self.fetched
        return self.requests if kind is QuotaKind.REQUESTS else self.mutations


class Ledger:
    """`version` changes whenever a `ClientQuota` that was given out must be asked for again."""

    def __init__(self, windows: Windows) -> None:
        self.version = 0
        self.is_on = False
        self.throttled_ms: Counter[QuotaKind] = Counter()
        self._windows = windows
        self._table = QuotaTable(())
        self._tenants: Mapping[str, Tenant] = {}
        self._buckets: dict[tuple[QuotaKind, QuotaOwner], Bucket] = {}
        self._clients: dict[tuple[str, str, str], ClientQuota | None] = {}
        self._forget_from = FORGET_FROM
        self._forget_next_ms = 0.0
        # Of the broker as a whole.
        self._connection_rate: float | None = None

    def use(self, quotas: Mapping[str, Quota], tenants: Mapping[str, Tenant]) -> None:
        """Quotas have changed; what was used stays."""
        self._table = QuotaTable(quotas.values())
        self._tenants = {name: each for name, each in tenants.items() if each.limits}
        self.is_on = bool(self._table) or bool(self._tenants)
        self._changed()

    def limit_connections(self, rate: float | None) -> None:
        """Of all addresses together, per second."""
        self._connection_rate = rate

    # --- who is held to what --------------------------------------------------------------

    def of_client(self, principal: Principal, client_id: str, now_ms: float) -> ClientQuota | None:
        """None: it may use whatever it likes."""
        if not self.is_on:
            return None
        key = (principal.name, principal.tenant, client_id)
        try:
            return self._clients[key]
        except KeyError:
            pass
        found = self._client(principal, client_id, now_ms)
        if len(self._clients) >= ENTITIES_MAX:
            self._clients.clear()
        self._clients[key] = found
        return found

    def _client(self, principal: Principal, client_id: str, now_ms: float) -> ClientQuota | None:
        self._make_room(now_ms)
        tenant = self._tenants.get(principal.tenant) if principal.tenant else None
        limits = {} if tenant is None else tenant.limits
        rates = {kind: limits.get(limit.value) for limit, kind in RATES.items()}
        buckets: dict[QuotaKind, tuple[Bucket, ...]] = {}
        for kind in _CLIENT_KINDS:
            own = self._table.of_client(kind, principal.name, client_id)
            rate = rates.get(kind)
            shared = None if rate is None else Held(QuotaOwner(tenant=principal.tenant), rate)
            held = [each for each in (own, shared) if each is not None]
            buckets[kind] = tuple(self._bucket(kind, each, now_ms) for each in held)
        return ClientQuota(self, buckets) if any(buckets.values()) else None

    def connected(self, ip: str, now_ms: float) -> int:
        """A connection came; returns for how many milliseconds it is not served."""
        held = self._table.of_address(ip) if self.is_on else None
        wait_ms = 0
        if held is not None:
            self._make_room(now_ms)
            bucket = self._bucket(QuotaKind.CONNECTIONS, held, now_ms)
            wait_ms = bucket.charge(1, now_ms)
        if self._connection_rate is not None:
            of_all = Held(_BROKER, self._connection_rate)
            whole = self._bucket(QuotaKind.CONNECTIONS, of_all, now_ms)
            wait_ms = max(wait_ms, whole.charge(1, now_ms))
        if wait_ms:
            self.throttled_ms[QuotaKind.CONNECTIONS] += wait_ms
        return wait_ms

    # --- how much is used -----------------------------------------------------------------

    def usage(self, now_ms: float, limit: int) -> list[QuotaUsage]:
        """Of those who used most of their quotas of late."""
        found = []
        for (kind, owner), bucket in self._buckets.items():
            used = bucket.used_per_s(now_ms)
            if used or bucket.wait_ms(now_ms):
                ratio = used / bucket.rate
                wait_ms = bucket.wait_ms(now_ms)
                found.append(QuotaUsage(kind, owner, bucket.rate, used, ratio, wait_ms))
        return nlargest(limit, found, key=lambda each: (each.ratio, each.wait_ms))

    def __len__(self) -> int:
        return len(self._buckets)

    # --- buckets --------------------------------------------------------------------------

    def _bucket(self, kind: QuotaKind, held: Held, now_ms: float) -> Bucket:
        windows = self._windows
        seconds = windows.mutations_s if kind is QuotaKind.MUTATIONS else windows.usual_s
        burst = held.rate * seconds
        if kind in (QuotaKind.MUTATIONS, QuotaKind.CONNECTIONS):
            # Of these there is no less than one at a time.
            burst = max(burst, 1.0)
        bucket = self._buckets.get((kind, held.owner))
        if bucket is not None:
            if (bucket.rate, bucket.burst) != (held.rate, burst):
                bucket.retune(held.rate, burst, now_ms)
            return bucket
        owner = held.owner if len(self._buckets) < ENTITIES_MAX else _OTHERS
        if owner is _OTHERS and (kind, owner) in self._buckets:
            return self._buckets[kind, owner]
        bucket = self._buckets[kind, owner] = Bucket(held.rate, burst, now_ms)
        return bucket

    def _make_room(self, now_ms: float) -> None:
        """Before buckets are looked for: none of those that are given out then is forgotten."""
        if len(self._buckets) < self._forget_from or now_ms < self._forget_next_ms:
            return
        self._forget_next_ms = now_ms + FORGET_EVERY_MS
        idle = [key for key, bucket in self._buckets.items() if bucket.is_full(now_ms)]
        for key in idle:
            del self._buckets[key]
        self._forget_from = min(ENTITIES_MAX, max(FORGET_FROM, 2 * len(self._buckets)))
        if idle:
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._clients.clear()
