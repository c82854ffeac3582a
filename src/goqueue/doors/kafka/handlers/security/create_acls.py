"""CreateAcls (KIP-140): each rule by itself is made, or told why not."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.acl_numbers import read_rule
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import Rule, check_rule
from goqueue.pace import in_slices
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import CreateAclsRequest

_MADE: Final[Message] = {"error_code": ErrorCode.none, "error_message": None}


async def handle(context: RequestContext, request: "CreateAclsRequest") -> Message:
    try:
        context.service.rules.check_used(context.caller, Verb.ALTER)
    except GoQueueError as error:
        return {"results": [_refused(error)] * len(request.creations)}
    results: list[Message] = []
    good: list[Rule] = []
    async for creation in in_slices(request.creations):
        try:
            rule = read_rule(creation, context.caller.principal.tenant)
            check_rule(rule)
        except GoQueueError as error:
            results.append(_refused(error))
        else:
            good.append(rule)
            results.append(_MADE)
    try:
        await context.service.rules.add(context.caller, good)
    except GoQueueError as error:
        results = [_refused(error) if each is _MADE else each for each in results]
    return {"results": results}


def _refused(error: GoQueueError) -> Message:
    return {"error_code": error_code(error), "error_message": error.message}


OPERATION = Operation(
    api_key=30,
    name="CreateAcls",
    min_version=1,
    max_version=3,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.ALTER),),
    names_resources=True,
)
