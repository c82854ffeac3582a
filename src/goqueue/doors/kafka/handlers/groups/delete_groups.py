"""DeleteGroups: forget groups without members, with their offsets."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest


async def handle(context: RequestContext, request: "DeleteGroupsRequest") -> Message:
    return {
        "results": [await _deleted(context, name) async for name in in_slices(request.groups_names)]
    }


async def _deleted(context: RequestContext, group_id: str) -> Message:
    try:
        result = await context.service.groups.delete(context.caller, group_id)
        code = group_code(result.error)
    except GoQueueError as error:
        code = failure_code(error)
    return {"group_id": group_id, "error_code": code}


OPERATION = Operation(
    api_key=42,
    name="DeleteGroups",
    min_version=0,
    max_version=2,
    handle=handle,
    names_resources=True,
    needs=(Need(Resource.GROUP, Verb.DELETE, names="groups_names", refused=Refused.EACH),),
)
