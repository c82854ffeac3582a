"""AlterConfigs: replaces all of a resource's own settings by those given."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.config_resources import (
    alter_each,
    check_changes,
    config_resource,
    needs_for,
)
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.rights import Verb

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
    check_changes(resource.configs)
    config = {change.name: change.value or "" for change in resource.configs}
    await context.service.administration.replace_config(
        context.caller, config_resource(resource), config, validate_only=validate_only
    )


OPERATION = Operation(
    api_key=33,
    name="AlterConfigs",
    min_version=0,
    max_version=2,
    handle=handle,
    names_resources=True,
    needs=needs_for(Verb.ALTER_CONFIGS),
)
