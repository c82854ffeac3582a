"""PushTelemetry (KIP-714): figures that a client tells of itself."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.telemetry_errors import TELEMETRY_CODES
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.client_metrics.messages import NO_INSTANCE, Push
from goqueue.service.needs import OPEN

if TYPE_CHECKING:
    from kio.schema.push_telemetry.v0.request import PushTelemetryRequest


async def handle(context: RequestContext, request: "PushTelemetryRequest") -> Message:
    error = context.service.client_metrics.push(
        context.caller,
        request.client_instance_id or NO_INSTANCE,
        context.services.software.of(context.connection),
        Push(
            subscription_id=request.subscription_id,
            is_terminating=request.terminating,
            compression=request.compression_type,
            metrics=bytes(request.metrics or b""),
        ),
    )
    return {"error_code": TELEMETRY_CODES[error]}


OPERATION = Operation(
    api_key=72,
    name="PushTelemetry",
    min_version=0,
    max_version=0,
    handle=handle,
    needs=OPEN,
)
