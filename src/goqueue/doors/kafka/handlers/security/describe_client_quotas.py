"""DescribeClientQuotas (KIP-546): the quotas that a filter finds."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.quota_entities import PARTS, entity_row
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.quotas import Quota, QuotaFilter
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2


class _UnknownType(InvalidRequest):
    """Kafka says so of what later versions of it may know."""


async def handle(context: RequestContext, request: "DescribeClientQuotasRequest") -> Message:
    try:
        # Who may not ask is told nothing of what it asked for.
        context.service.quotas.describe(context.caller, QuotaFilter(strict=True))
        quotas = context.service.quotas.describe(context.caller, _filter(request))
    except _UnknownType as error:
        return _refusal(ErrorCode.unsupported_version, error)
    except GoQueueError as error:
        return _refusal(error_code(error), error)
    return {"error_code": ErrorCode.none, "error_message": None, "entries": list(map(_row, quotas))}


def _refusal(code: ErrorCode, error: GoQueueError) -> Message:
    return {"error_code": code, "error_message": error.message, "entries": None}


def _filter(request: "DescribeClientQuotasRequest") -> QuotaFilter:
    names: dict[str, str] = {}
    present: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequest("entity type: must not be empty")
        if kind not in PARTS:
            raise _UnknownType(f"entity type {kind!r}: must be one of {', '.join(PARTS)}")
        part = PARTS[kind]
        if part in names or part in present:
            raise InvalidRequest(f"entity type {kind}: given more than once")
        if (component.match is None) == (component.match_type == _EXACT):
            raise InvalidRequest(f"{kind}: a name goes with match type {_EXACT}, and with no other")
        if component.match_type == _EXACT:
            names[part] = component.match or ""
        elif component.match_type == _DEFAULT:
            names[part] = ""
        elif component.match_type == _SPECIFIED:
            present.add(part)
        else:
            raise InvalidRequest(f"{kind}: match type {component.match_type} is unknown")
    parts = present.union(names)
    if "ip" in parts and len(parts) > 1:
        raise InvalidRequest("ip does not go together with user or client-id")
    return QuotaFilter(names, frozenset(present), request.strict)


def _row(quota: Quota) -> Message:
    return {
        "entity": entity_row(quota.entity),
        "values": [{"key": key, "value": value} for key, value in sorted(quota.values.items())],
    }


OPERATION = Operation(
    api_key=48,
    name="DescribeClientQuotas",
    min_version=0,
    max_version=1,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.DESCRIBE_CONFIGS),),
    only_reads=True,
)
