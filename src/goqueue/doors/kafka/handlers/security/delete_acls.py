"""DeleteAcls (KIP-140): all rules that a filter takes; each filter is told which."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.acl_numbers import entry, read_filters
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rule_filters import RuleFilters
from goqueue.model.security.rules import Rule, RuleFilter
from goqueue.pace import in_slices
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.delete_acls.v3.request import DeleteAclsRequest


async def handle(context: RequestContext, request: "DeleteAclsRequest") -> Message:
    rules, caller = context.service.rules, context.caller
    # What each filter of the request asks for, or why it is refused.
    asked: list[list[RuleFilter] | GoQueueError] = []
    try:
        rules.check_used(caller, Verb.ALTER)
        async for each in in_slices(request.filters):
            try:
                asked.append(read_filters(each, caller.principal.tenant))
            except GoQueueError as error:
                asked.append(error)
        wanted = [one for each in asked if isinstance(each, list) for one in each]
        removed = await rules.remove(caller, wanted)
    except GoQueueError as error:
        return {"filter_results": [_refused(error)] * len(request.filters)}
    # For each of the filters above, which of the request it is of.
    owners = [place for place, each in enumerate(asked) if isinstance(each, list) for _ in each]
    matching: list[list[Message]] = [[] for _ in asked]
    filters = RuleFilters(wanted)
    async for rule in in_slices(removed):
        for place in {owners[number] for number in filters.taking(rule)}:
            matching[place].append(_removed(rule))
    return {
        "filter_results": [
            _result(found) if isinstance(each, list) else _refused(each)
            for each, found in zip(asked, matching, strict=True)
        ]
    }


def _result(matching: list[Message]) -> Message:
    return {"error_code": ErrorCode.none, "error_message": None, "matching_acls": matching}


def _removed(rule: Rule) -> Message:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resource_type": rule.resource.value,
        "resource_name": rule.name,
        "pattern_type": rule.pattern.value,
        **entry(rule),
    }


def _refused(error: GoQueueError) -> Message:
    return {
        "error_code": error_code(error),
        "error_message": error.message,
        "matching_acls": [],
    }


OPERATION = Operation(
    api_key=31,
    name="DeleteAcls",
    min_version=1,
    max_version=3,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.ALTER),),
    names_resources=True,
)
