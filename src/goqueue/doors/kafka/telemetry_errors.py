"""How refusals of client metrics are told in Kafka's protocol."""

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from goqueue.model.client_metrics.messages import TelemetryError

TELEMETRY_CODES: Final[Mapping[TelemetryError, ErrorCode]] = {
    TelemetryError.NONE: ErrorCode.none,
    TelemetryError.INVALID_REQUEST: ErrorCode.invalid_request,
    TelemetryError.THROTTLED: ErrorCode.throttling_quota_exceeded,
    TelemetryError.UNKNOWN_SUBSCRIPTION: ErrorCode.unknown_subscription_id,
    TelemetryError.UNSUPPORTED_COMPRESSION: ErrorCode.unsupported_compression_type,
    TelemetryError.TOO_LARGE: ErrorCode.telemetry_too_large,
    # Tells clients to stop: what they push will be no better the next time.
    TelemetryError.INVALID_METRICS: ErrorCode.invalid_record,
}
