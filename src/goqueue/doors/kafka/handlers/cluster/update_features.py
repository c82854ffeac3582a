"""UpdateFeatures (KIP-584): the levels are those of the program, so none can be chosen."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.handlers.api_versions import FEATURES
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.update_features.v1.request import FeatureUpdateKey, UpdateFeaturesRequest


async def handle(context: RequestContext, request: "UpdateFeaturesRequest") -> Message:
    try:
        context.service.cluster.check_alterable(context.caller)
    except GoQueueError as error:
        return {"error_code": error_code(error), "error_message": error.message, "results": ()}
    results = [_result(update) for update in request.feature_updates]
    # Version 2 has one answer for all.
    refused = next((each for each in results if each["error_code"] is not ErrorCode.none), None)
    return {
        "error_code": ErrorCode.none if refused is None else refused["error_code"],
        "error_message": None if refused is None else refused["error_message"],
        "results": results,
    }


def _result(update: "FeatureUpdateKey") -> Message:
    level = FEATURES.get(update.feature)
    message = None
    if level is None:
        message = f"there is no feature {update.feature!r}"
    elif update.max_version_level != level:
        message = f"{update.feature} is at level {level} and cannot be changed"
    return {
        "feature": update.feature,
        "error_code": ErrorCode.none if message is None else ErrorCode.invalid_update_version,
        "error_message": message,
    }


OPERATION = Operation(
    api_key=57,
    name="UpdateFeatures",
    min_version=0,
    max_version=2,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.ALTER),),
)
