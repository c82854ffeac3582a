"""ListConfigResources (KIP-1142): the names of everything that has settings."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.config_resources import ResourceType
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message

if TYPE_CHECKING:
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

# Version 0 was made for client metrics alone; there are none here.
_FIRST_VERSION_WITH_TYPES: Final = 1


async def handle(context: RequestContext, request: "ListConfigResourcesRequest") -> Message:
    known = {kind.value for kind in ResourceType}
    if not known.issuperset(request.resource_types):
        return {"error_code": ErrorCode.unsupported_version, "config_resources": ()}
    if context.version < _FIRST_VERSION_WITH_TYPES:
        return {"error_code": ErrorCode.none, "config_resources": ()}
    image = context.broker.image
    names = {
        ResourceType.TOPIC.value: list(image.topics),
        ResourceType.BROKER.value: [str(node_id) for node_id in image.brokers],
        ResourceType.GROUP.value: [name for name, own in image.group_configs.items() if own],
    }
    asked = set(request.resource_types) or known
    return {
        "error_code": ErrorCode.none,
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind, kind_names in names.items()
            if kind in asked
            for name in kind_names
        ],
    }


OPERATION = Operation(
    api_key=74, name="ListConfigResources", min_version=0, max_version=1, handle=handle
)
