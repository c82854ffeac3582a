"""GetTelemetrySubscriptions (KIP-714): which of its metrics a client is to push, and how often."""

from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.telemetry_errors import TELEMETRY_CODES
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.client_metrics.messages import NO_INSTANCE, TelemetryError
from goqueue.service.needs import OPEN

if TYPE_CHECKING:
    from kio.schema.get_telemetry_subscriptions.v0.request import GetTelemetrySubscriptionsRequest

# zstd, lz4, gzip, snappy: clients take the first that they have.
_COMPRESSIONS: Final = (4, 3, 1, 2)


async def handle(context: RequestContext, request: "GetTelemetrySubscriptionsRequest") -> Message:
    service = context.service.client_metrics
    software = context.services.software.of(context.connection)
    answer = service.ask(context.caller, request.client_instance_id or NO_INSTANCE, software)
    if answer.error is not TelemetryError.NONE:
        return {
            "error_code": TELEMETRY_CODES[answer.error],
            "client_instance_id": None,
            "subscription_id": 0,
            "accepted_compression_types": (),
            "push_interval": 0,
            "telemetry_max_bytes": 0,
            "delta_temporality": False,
            "requested_metrics": (),
        }
    return {
        "error_code": TELEMETRY_CODES[answer.error],
        "client_instance_id": answer.instance_id,
        "subscription_id": answer.subscribed.subscription_id,
        "accepted_compression_types": _COMPRESSIONS,
        "push_interval": answer.subscribed.interval_ms,
        "telemetry_max_bytes": service.max_bytes,
        # Totals, of which a push that gets lost loses nothing.
        "delta_temporality": False,
        "requested_metrics": answer.subscribed.metrics,
    }


OPERATION = Operation(
    api_key=71,
    name="GetTelemetrySubscriptions",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=OPEN,
)
