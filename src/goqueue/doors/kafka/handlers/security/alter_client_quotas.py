"""AlterClientQuotas (KIP-546): each entity's quotas are changed, or refused, by themselves."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.quota_entities import entity_of
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.quotas import QuotaChange
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntryData


async def handle(context: RequestContext, request: "AlterClientQuotasRequest") -> Message:
    refused: dict[int, GoQueueError | None] = {}
    changes: dict[int, QuotaChange] = {}
    for position, entry in enumerate(request.entries):
        try:
            changes[position] = _change(entry)
        except GoQueueError as error:
            refused[position] = error
    try:
        answers = await context.service.quotas.alter(
            context.caller, list(changes.values()), validate_only=request.validate_only
        )
    except GoQueueError as error:
        refused = dict.fromkeys(range(len(request.entries)), error)
    else:
        refused.update(zip(changes, answers, strict=True))
    return {
        "entries": [
            _answer(entry, refused[position]) for position, entry in enumerate(request.entries)
        ]
    }


def _change(entry: "EntryData") -> QuotaChange:
    values: dict[str, float | None] = {}
    for op in entry.ops:
        if op.key in values:
            raise InvalidRequest(f"quota {op.key}: given more than once")
        values[op.key] = None if op.remove else op.value
    entity = entity_of((each.entity_type, each.entity_name) for each in entry.entity)
    return QuotaChange(entity, values)


def _answer(entry: "EntryData", error: GoQueueError | None) -> Message:
    return {
        "error_code": ErrorCode.none if error is None else error_code(error),
        "error_message": None if error is None else error.message,
        "entity": [
            {"entity_type": each.entity_type, "entity_name": each.entity_name}
            for each in entry.entity
        ],
    }


OPERATION = Operation(
    api_key=49,
    name="AlterClientQuotas",
    min_version=0,
    max_version=1,
    handle=handle,
    names_resources=True,
    needs=(Need(Resource.CLUSTER, Verb.ALTER_CONFIGS),),
)
