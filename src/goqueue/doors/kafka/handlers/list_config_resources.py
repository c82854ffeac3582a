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

# Loggers of brokers and client metrics: Kafka has settings for them, and here are none.
_WITHOUT_ANY: Final = frozenset({8, 16})
# Version 0 was made for client metrics alone; there are none here.
_FIRST_VERSION_WITH_TYPES: Final = 1


async def handle(context: RequestContext, request: "ListConfigResourcesRequest") -> Message:
    try:
        resources = context.service.administration.config_resources(context.caller)
    except ClusterAccessDenied as error:
        return {"error_code": error_code(error), "config_resources": ()}
    known = {kind.value for kind in ConfigResourceKind} | _WITHOUT_ANY
    if not known.issuperset(request.resource_types):
        return {"error_code": ErrorCode.unsupported_version, "config_resources": ()}
    if context.version < _FIRST_VERSION_WITH_TYPES:
        return {"error_code": ErrorCode.none, "config_resources": ()}
    asked = set(request.resource_types) or known
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
