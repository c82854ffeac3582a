"""ApiVersions: what this door serves (KIP-35), also for clients newer than it (KIP-511)."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.service.needs import OPEN

if TYPE_CHECKING:
    from kio.schema.api_versions.v4.request import ApiVersionsRequest

# KIP-511: the software's name and version end up in metrics and logs.
_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE: Final = 3

# KIP-584. Groups of the consumer protocol (KIP-848), share groups (KIP-932), streams groups
# (KIP-1071), and transactions that raise the epoch at every end (KIP-890): clients use what they
# see finalized.
FEATURES: Final[Mapping[str, int]] = {
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
# GetTelemetrySubscriptions and PushTelemetry (KIP-714).
_CLIENT_METRICS: Final = (71, 72)
# The levels are those of the program, so there is one set of them only.
_FEATURES_EPOCH: Final = 0
# Older versions cannot express features that may also be off (KIP-1022).
_FIRST_VERSION_WITH_LEVEL_0: Final = 4


async def handle(context: RequestContext, request: "ApiVersionsRequest | None") -> Message:
    api_keys = _api_keys(context)
    if request is None:
        return {"error_code": ErrorCode.unsupported_version, "api_keys": api_keys}
    if context.version >= _FIRST_VERSION_WITH_SOFTWARE:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE_NAME.fullmatch(name) and _SOFTWARE_NAME.fullmatch(version)):
            return {"error_code": ErrorCode.invalid_request, "api_keys": ()}
        context.services.software.note(context.connection, name, version)
    supported = FEATURES if context.version >= _FIRST_VERSION_WITH_LEVEL_0 else {}
    return {
        "error_code": ErrorCode.none,
        "api_keys": api_keys,
        "supported_features": [
            {"name": name, "min_version": 0, "max_version": level}
            for name, level in supported.items()
        ],
        "finalized_features_epoch": _FEATURES_EPOCH,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in FEATURES.items()
        ],
    }


def _api_keys(context: RequestContext) -> list[Message]:
    # A client that is offered to push metrics asks which, on every connection, and librdkafka
    # writes a line to its log for that. Kafka, too, offers it only where somebody wants them.
    left_out = () if context.service.client_metrics.are_wanted else _CLIENT_METRICS
    return [
        {
            "api_key": operation.api_key,
            "min_version": (
                operation.min_version
                if operation.advertised_min_version is None
                else operation.advertised_min_version
            ),
            "max_version": operation.max_version,
        }
        for operation in context.services.operations.values()
        if operation.api_key not in left_out
    ]


OPERATION = Operation(
    api_key=18,
    name="ApiVersions",
    min_version=0,
    max_version=4,
    handle=handle,
    starts_at_once=True,
    needs=OPEN,
    answers_newer_versions=True,
)
