"""IncrementalAlterConfigs (KIP-339): changes single settings of topics and of this broker."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.config_resources import (
    ResourceType,
    alter_each,
    check_changes,
    own_node_id,
)
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.configs import ConfigChange, ConfigOp
from goqueue.model.errors import InvalidRequest

if TYPE_CHECKING:
    from kio.schema.incremental_alter_configs.v1.request import (
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )


async def handle(context: RequestContext, request: "IncrementalAlterConfigsRequest") -> Message:
    return await alter_each(
        request.resources,
        lambda resource: _change(context, resource, validate_only=request.validate_only),
    )


async def _change(
    context: RequestContext, resource: "AlterConfigsResource", *, validate_only: bool
) -> None:
    broker, name = context.broker, resource.resource_name
    changes = [
        ConfigChange(name=change.name, op=_op(change.config_operation), value=change.value)
        for change in resource.configs
    ]
    deletions = [change.name for change in changes if change.op is ConfigOp.DELETE]
    check_changes(changes, may_be_null=deletions)
    if resource.resource_type == ResourceType.TOPIC.value:
        await broker.topics.alter_config(name, changes, validate_only=validate_only)
    elif resource.resource_type == ResourceType.BROKER.value:
        node_id = own_node_id(broker, name)
        await broker.topics.alter_broker_config(node_id, changes, validate_only=validate_only)
    elif resource.resource_type == ResourceType.GROUP.value:
        await broker.group_configs.alter(name, changes, validate_only=validate_only)
    else:
        raise InvalidRequest(f"resource type {resource.resource_type} is not supported")


def _op(number: int) -> ConfigOp:
    try:
        return ConfigOp(number)
    except ValueError:
        raise InvalidRequest(f"operation {number} is unknown; it must be 0 to 3") from None


OPERATION = Operation(
    api_key=44, name="IncrementalAlterConfigs", min_version=0, max_version=1, handle=handle
)
