"""Clients that ask what to push, and their last figures: bounded, and forgotten after a while."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from goqueue.model.client_metrics.messages import (
    NO_INSTANCE,
    ClientFigures,
    ClientView,
    Point,
    Push,
    Series,
    SeriesName,
    Subscribed,
    SubscriptionAnswer,
    TelemetryClient,
    TelemetryError,
)
from goqueue.state.client_metrics.subscriptions import Subscription, subscribed

# As many as there are connections by default; a kilobyte each.
INSTANCES_MAX: Final = 10_000
# A Java consumer of some hundred partitions has this many.
SERIES_PER_INSTANCE_MAX: Final = 500
# Half a kilobyte each, or a little more than one if somebody means to fill the memory.
SERIES_MAX: Final = 20_000
# Kafka's: a client that is silent for as long, or for three of its intervals, is forgotten.
FORGOTTEN_AFTER_MS: Final = 60_000
_FORGOTTEN_AFTER_INTERVALS: Final = 3
# Looking at all of them takes some milliseconds.
_SWEEP_MS: Final = 10_000
# By Kafka's numbers: none, gzip, snappy, lz4, zstd.
COMPRESSIONS: Final = range(5)
# After these a client asks at once what it should have done (KIP-714).
_ASKS_AT_ONCE: Final = (
    TelemetryError.UNKNOWN_SUBSCRIPTION,
    TelemetryError.UNSUPPORTED_COMPRESSION,
)


class Unpacked(NamedTuple):
    """What was in a push. `is_cut`: not all of it was looked at."""

    error: TelemetryError
    points: Sequence[Point] = ()
    is_cut: bool = False


# Unpacks and decodes; called only for pushes that are taken.
Unpack = Callable[[Push], Unpacked]


@dataclass(slots=True)
class _Instance:
    client: TelemetryClient
    subscribed: Subscribed
    # Of the subscriptions that it was held against.
    version: int
    last_asked_ms: int | None = None
    last_push_ms: int | None = None
    may_push_at_once: bool = False
    has_terminated: bool = False
    last_error: TelemetryError = TelemetryError.NONE
    seen_ms: int = 0
    series: dict[SeriesName, Series] = field(default_factory=dict)

    def has_waited(self, *since_ms: int | None, now_ms: int) -> bool:
        last_ms = max((each for each in since_ms if each is not None), default=None)
        return last_ms is None or now_ms - last_ms >= self.subscribed.interval_ms

    def is_forgotten(self, now_ms: int) -> bool:
        kept_ms = max(FORGOTTEN_AFTER_MS, _FORGOTTEN_AFTER_INTERVALS * self.subscribed.interval_ms)
        return now_ms - self.seen_ms >= kept_ms


class ClientInstances:
    def __init__(self, max_bytes: int, new_id: Callable[[], UUID]) -> None:
        self.max_bytes = max_bytes
        self._new_id = new_id
        self._subscriptions: tuple[Subscription, ...] = ()
        self._version = 0
        # Those that were heard of last are at the end.
        self._instances: OrderedDict[UUID, _Instance] = OrderedDict()
        self._series = 0
        self._swept_ms = 0
        self._pushes: Counter[TelemetryError] = Counter()
        self._left_out = 0

    def subscribe(self, subscriptions: Iterable[Subscription]) -> None:
        """What holds from now on; clients learn it with their next request."""
        self._subscriptions = tuple(subscriptions)
        self._version += 1

    # --- requests -------------------------------------------------------------------------

    def ask(self, client: TelemetryClient, *, now_ms: int) -> SubscriptionAnswer:
        """What the client is to push. One that has no id yet is given one."""
        if client.instance_id == NO_INSTANCE:
            client = client._replace(instance_id=self._new_id())
        instance = self._instance(client, now_ms)
        has_waited = instance.has_waited(
            instance.last_asked_ms, instance.last_push_ms, now_ms=now_ms
        )
        if not has_waited and instance.last_error not in _ASKS_AT_ONCE:
            error = TelemetryError.THROTTLED
        else:
            error = instance.last_error = TelemetryError.NONE
            instance.last_asked_ms = now_ms
            instance.may_push_at_once = True
        return SubscriptionAnswer(error, client.instance_id, instance.subscribed)

    def push(
        self, client: TelemetryClient, push: Push, unpack: Unpack, *, now_ms: int
    ) -> TelemetryError:
        error = self._push(client, push, unpack, now_ms)
        self._pushes[error] += 1
        return error

    def _push(
        self, client: TelemetryClient, push: Push, unpack: Unpack, now_ms: int
    ) -> TelemetryError:
        if client.instance_id == NO_INSTANCE:
            return TelemetryError.INVALID_REQUEST
        instance = self._instance(client, now_ms)
        error = self._refusal(instance, push, now_ms)
        instance.has_terminated = instance.has_terminated or push.is_terminating
        if error is TelemetryError.NONE and push.metrics:
            unpacked = unpack(push)
            error = unpacked.error
            self._left_out += unpacked.is_cut
            self._take(instance, unpacked.points)
        instance.last_error = error
        return error

    def _refusal(self, instance: _Instance, push: Push, now_ms: int) -> TelemetryError:
        if instance.has_terminated:
            return TelemetryError.INVALID_REQUEST
        # Clients push for the first time when a part of the interval has passed, at random.
        may_push = instance.may_push_at_once or instance.has_waited(
            instance.last_push_ms, now_ms=now_ms
        )
        if not may_push and not push.is_terminating:
            return TelemetryError.THROTTLED
        instance.last_push_ms = now_ms
        instance.may_push_at_once = False
        if push.subscription_id != instance.subscribed.subscription_id:
            return TelemetryError.UNKNOWN_SUBSCRIPTION
        if push.compression not in COMPRESSIONS:
            return TelemetryError.UNSUPPORTED_COMPRESSION
        if len(push.metrics) > self.max_bytes:
            return TelemetryError.TOO_LARGE
        return TelemetryError.NONE

    # --- figures --------------------------------------------------------------------------

    def figures(self, now_ms: int) -> ClientFigures:
        """Clients by their names, with what they pushed."""
        self._forget(now_ms)
        clients = sorted(
            (
                ClientView(each.client, each.subscribed, each.last_push_ms, dict(each.series))
                for each in self._instances.values()
                if each.subscribed.metrics or each.series
            ),
            key=lambda view: (view.client.client_id, view.client.instance),
        )
        return ClientFigures(clients, dict(self._pushes), self._left_out)

    # --- inside ---------------------------------------------------------------------------

    def _instance(self, client: TelemetryClient, now_ms: int) -> _Instance:
        if now_ms - self._swept_ms >= _SWEEP_MS:
            self._forget(now_ms)
        found = self._instances.get(client.instance_id)
        if found is None or found.version != self._version:
            wanted = subscribed(self._subscriptions, client)
            if found is not None and found.subscribed == wanted:
                found.version = self._version
            else:
                found = self._replaced(found, _Instance(client, wanted, self._version))
        self._instances.move_to_end(client.instance_id)
        if not found.has_terminated:
            found.seen_ms = now_ms
        while len(self._instances) > INSTANCES_MAX:
            _, oldest = self._instances.popitem(last=False)
            self._series -= len(oldest.series)
        return found

    def _replaced(self, old: _Instance | None, new: _Instance) -> _Instance:
        """What it pushed stays, unless it is to push nothing any more."""
        if old is not None and new.subscribed.metrics:
            new.series = old.series
        elif old is not None:
            self._series -= len(old.series)
        self._instances[new.client.instance_id] = new
        return new

    def _forget(self, now_ms: int) -> None:
        self._swept_ms = now_ms
        gone = [key for key, each in self._instances.items() if each.is_forgotten(now_ms)]
        for key in gone:
            self._series -= len(self._instances.pop(key).series)

    def _take(self, instance: _Instance, points: Sequence[Point]) -> None:
        """What a client no longer tells goes, except if it tells differences: it leaves out what
        did not change."""
        if not points:
            return
        before = instance.series
        series = dict(before) if any(point.is_delta for point in points) else {}
        room = min(SERIES_PER_INSTANCE_MAX, SERIES_MAX - self._series + len(before))
        for point in points:
            known = series.get(point.name)
            if known is None and len(series) >= room:
                self._left_out += 1
                continue
            value = point.value
            if point.is_delta and known is not None and known.kind is point.kind:
                value += known.value
            series[point.name] = Series(point.kind, value)
        self._series += len(series) - len(before)
        instance.series = series
