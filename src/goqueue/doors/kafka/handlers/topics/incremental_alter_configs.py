"""IncrementalAlterConfigs (KIP-339): changes single settings of topics and of this broker."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.config_resources import (
    alter_each,
    check_changes,
    config_resource,
    needs_for,
)
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.configs import ConfigChange, ConfigOp
from goqueue.model.errors import InvalidRequest
from goqueue.model.rights import Verb

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
    changes = [
        ConfigChange(name=change.name, op=_op(change.config_operation), value=change.value)
        for change in resource.configs
    ]
    deletions = [change.name for change in changes if change.op is ConfigOp.DELETE]
    check_changes(changes, may_be_null=deletions)
    await context.service.administration.alter_config(
        context.caller, config_resource(resource), changes, validate_only=validate_only
    )


def _op(number: int) -> ConfigOp:
    try:
        return ConfigOp(number)
    except ValueError:
        raise InvalidRequest(f"operation {number} is unknown; it must be 0 to 3") from None


OPERATION = Operation(
    api_key=44,
    name="IncrementalAlterConfigs",
    min_version=0,
    max_version=1,
    handle=handle,
    names_resources=True,
    needs=needs_for(Verb.ALTER_CONFIGS),
)
