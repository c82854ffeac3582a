"""DescribeAcls (KIP-140): rules, gathered by what they speak of."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.acl_numbers import entry, read_filters
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import Rule
from goqueue.pace import in_slices
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest


async def handle(context: RequestContext, request: "DescribeAclsRequest") -> Message:
    rules, caller = context.service.rules, context.caller
    try:
        rules.check_used(caller, Verb.DESCRIBE)
        wanted = read_filters(request, caller.principal.tenant)
        found = await rules.rules(caller, wanted)
    except GoQueueError as error:
        return {"error_code": error_code(error), "error_message": error.message, "resources": []}
    places: dict[tuple[int, str, int], list[Message]] = {}
    async for rule in in_slices(found):
        places.setdefault(_place(rule), []).append(entry(rule))
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resources": [
            {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": acls}
            async for (kind, name, pattern), acls in in_slices(places.items())
        ],
    }


def _place(rule: Rule) -> tuple[int, str, int]:
    return rule.resource.value, rule.name, rule.pattern.value


OPERATION = Operation(
    api_key=29,
    name="DescribeAcls",
    min_version=1,
    max_version=3,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.DESCRIBE),),
    only_reads=True,
)
