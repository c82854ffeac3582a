"""AlterConfigs: replaces all of a resource's own settings by those given."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.config_resources import (
    ResourceType,
    alter_each,
    check_changes,
    own_node_id,
)
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import InvalidRequest

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource


async def handle(context: RequestContext, request: "AlterConfigsRequest") -> Message:
    return await alter_each(
        request.resources,
        lambda resource: _replace(context, resource, validate_only=request.validate_only),
    )


async def _replace(
    context: RequestContext, resource: "AlterConfigsResource", *, validate_only: bool
) -> None:
    broker, name = context.broker, resource.resource_name
    check_changes(resource.configs)
    config = {change.name: change.value or "" for change in resource.configs}
    if resource.resource_type == ResourceType.TOPIC.value:
        await broker.topics.replace_config(name, config, validate_only=validate_only)
    elif resource.resource_type == ResourceType.BROKER.value:
        node_id = own_node_id(broker, name)
        await broker.topics.replace_broker_config(node_id, config, validate_only=validate_only)
    elif resource.resource_type == ResourceType.GROUP.value:
        await broker.group_configs.replace(name, config, validate_only=validate_only)
    else:
        raise InvalidRequest(f"resource type {resource.resource_type} is not supported")


OPERATION = Operation(api_key=33, name="AlterConfigs", min_version=0, max_version=2, handle=handle)
