"""FindCoordinator: which broker looks after a group or a transactional id."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.coordinators import CoordinatorKind
from goqueue.model.errors import AccessDenied, GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

_FIRST_VERSION_WITH_SHARE: Final = 6
_SHARE_KEY: Final = re.compile(r".+:[A-Za-z0-9_-]{22}:\d{1,10}", re.ASCII | re.DOTALL)
_FIRST_VERSION_WITH_MANY_KEYS: Final = 4


async def handle(context: RequestContext, request: "FindCoordinatorRequest") -> Message:
    if context.version >= _FIRST_VERSION_WITH_MANY_KEYS:
        keys: Sequence[str] = request.coordinator_keys
        return {
            "coordinators": [
                await _found(context, request.key_type, key) async for key in in_slices(keys)
            ]
        }
    return await _found(context, request.key_type, getattr(request, "key", ""))


async def _found(context: RequestContext, key_type: int, key: str) -> Message:
    kind = _kind(key_type, context.version)
    if kind is None:
        return _refused(key, ErrorCode.invalid_request, f"coordinator type {key_type} is unknown")
    if kind is CoordinatorKind.SHARE and not _SHARE_KEY.fullmatch(key):
        message = "a share coordinator's key is group:topic id:partition"
        return _refused(key, ErrorCode.invalid_request, message)
    if kind is CoordinatorKind.TRANSACTION and not key:
        return _refused(key, ErrorCode.invalid_request, "the transactional id is empty")
    try:
        broker = await context.service.administration.coordinator(context.caller, kind, key)
    except AccessDenied as error:
        return _refused(key, error_code(error), error.message)
    except GoQueueError as error:
        # Its topic could not be made: there are too few brokers, or no metadata store.
        return _refused(key, ErrorCode.coordinator_not_available, error.message)
    if broker is None:
        return _refused(key, ErrorCode.coordinator_not_available, "no broker leads it now")
    return {
        "key": key,
        "node_id": broker.node_id,
        "host": broker.host,
        "port": broker.kafka_port,
        "error_code": ErrorCode.none,
        "error_message": None,
    }


def _kind(number: int, version: int) -> CoordinatorKind | None:
    try:
        kind = CoordinatorKind(number)
    except ValueError:
        return None
    knows_share = version >= _FIRST_VERSION_WITH_SHARE
    return kind if knows_share or kind is not CoordinatorKind.SHARE else None


def _refused(key: str, code: ErrorCode, message: str) -> Message:
    return {
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": code,
        "error_message": message,
    }


OPERATION = Operation(
    api_key=10,
    name="FindCoordinator",
    min_version=0,
    max_version=6,
    handle=handle,
    names_resources=True,
    # Which of them depends on the kind that is asked for.
    needs=(
        Need(Resource.GROUP, Verb.DESCRIBE, names="key, coordinator_keys", refused=Refused.EACH),
        Need(
            Resource.TRANSACTIONAL_ID,
            Verb.DESCRIBE,
            names="key, coordinator_keys",
            refused=Refused.EACH,
        ),
        Need(Resource.CLUSTER, Verb.CLUSTER_ACTION, refused=Refused.EACH),
    ),
)
