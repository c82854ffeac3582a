"""What clients ask and push, what they are answered, and what is known of them."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

# What a client says that has no id yet.
NO_INSTANCE: Final = UUID(int=0)


class TelemetryError(Enum):
    NONE = "none"
    INVALID_REQUEST = "invalid_request"
    THROTTLED = "throttled"
    UNKNOWN_SUBSCRIPTION = "unknown_subscription"
    UNSUPPORTED_COMPRESSION = "unsupported_compression"
    TOO_LARGE = "too_large"
    INVALID_METRICS = "invalid_metrics"


class ClientSoftware(NamedTuple):
    """As the client called itself on the connection (KIP-511); empty if it did not."""

    name: str = ""
    version: str = ""


class TelemetryClient(NamedTuple):
    """Who asks or pushes; the instance is told by the client, and nothing is decided by it."""

    instance_id: UUID
    client_id: str
    software: ClientSoftware
    address: str
    port: int

    @property
    def instance(self) -> str:
        """As clients and Kafka's tools write it."""
        return urlsafe_b64encode(self.instance_id.bytes).rstrip(b"=").decode()


class Subscribed(NamedTuple):
    """What a client is to push, of all subscriptions that choose it; nothing without metrics."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class SubscriptionAnswer(NamedTuple):
    error: TelemetryError
    instance_id: UUID
    subscribed: Subscribed


class Push(NamedTuple):
    """`metrics` are OTLP's `MetricsData`, packed by `compression` (by Kafka's numbers)."""

    subscription_id: int
    is_terminating: bool
    compression: int
    metrics: bytes


class MetricKind(Enum):
    GAUGE = "gauge"
    # Only grows, until the client starts again.
    COUNTER = "counter"


class SeriesName(NamedTuple):
    metric: str
    attributes: tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """A value that a client pushed. `is_delta`: it comes on top of what was pushed before."""

    name: SeriesName
    kind: MetricKind
    value: float
    is_delta: bool = False


class Series(NamedTuple):
    kind: MetricKind
    value: float


class ClientView(NamedTuple):
    """One client instance and what it pushed last."""

    client: TelemetryClient
    subscribed: Subscribed
    last_push_ms: int | None
    series: Mapping[SeriesName, Series]


class ClientFigures(NamedTuple):
    """`pushes` by how they ended. `left_out`: points that were beyond a bound."""

    clients: Sequence[ClientView]
    pushes: Mapping[TelemetryError, int]
    left_out: int
