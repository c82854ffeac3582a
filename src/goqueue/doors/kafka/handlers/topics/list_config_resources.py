"""ListConfigResources (KIP-1142): the names of everything that has settings."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.configs import ConfigResourceKind
from goqueue.model.errors import ClusterAccessDenied
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

# Version 0, which had another name, is about client metrics alone.
_FIRST_VERSION_WITH_TYPES: Final = 1


async def handle(context: RequestContext, request: "ListConfigResourcesRequest") -> Message:
    try:
        resources = context.service.administration.config_resources(context.caller)
    except ClusterAccessDenied as error:
        return {"error_code": error_code(error), "config_resources": ()}
    known = {kind.value for kind in ConfigResourceKind}
    asked = {ConfigResourceKind.CLIENT_METRICS.value}
    if context.version >= _FIRST_VERSION_WITH_TYPES:
        asked = set(request.resource_types) or known
    if not known.issuperset(asked):
        return {"error_code": ErrorCode.unsupported_version, "config_resources": ()}
    return {
        "error_code": ErrorCode.none,
        "config_resources": [
            {"resource_name": resource.name, "resource_type": resource.kind.value}
            for resource in resources
            if resource.kind.value in asked
        ],
    }


OPERATION = Operation(
    api_key=74,
    name="ListConfigResources",
    min_version=0,
    max_version=1,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.DESCRIBE_CONFIGS),),
    only_reads=True,
)
