"""DescribeConfigs: settings of topics and of this broker, with where each value comes from."""

from dataclasses import replace
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.config_resources import ResourceType, own_node_id
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.configs import ConfigEntry, ConfigSource
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.names import check_topic_name

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4.request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )


async def handle(context: RequestContext, request: "DescribeConfigsRequest") -> Message:
    return {
        "results": [
            _described(
                context,
                resource,
                synonyms=request.include_synonyms,
                docs=request.include_documentation,
            )
            for resource in request.resources
        ]
    }


def _described(
    context: RequestContext, resource: "DescribeConfigsResource", *, synonyms: bool, docs: bool
) -> Message:
    try:
        entries = _entries(context, resource)
    except GoQueueError as error:
        return {
            "error_code": error_code(error),
            "error_message": error.message,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
            "configs": (),
        }
    keys = resource.configuration_keys
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [
            _entry(entry, synonyms=synonyms, docs=docs)
            for entry in entries
            # Kafka takes an empty list of keys like none.
            if not keys or entry.name in keys
        ],
    }


def _entries(context: RequestContext, resource: "DescribeConfigsResource") -> list[ConfigEntry]:
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC.value:
        return context.broker.topics.describe_config(check_topic_name(name))
    if resource.resource_type == ResourceType.BROKER.value:
        entries = context.broker.topics.describe_broker_config(context.broker.node_id)
        return entries if own_node_id(context.broker, name) is not None else _cluster_wide(entries)
    if resource.resource_type == ResourceType.GROUP.value:
        if not name:
            raise InvalidRequest("group name: is empty")
        return context.broker.group_configs.describe(name)
    raise InvalidRequest(f"resource type {resource.resource_type} is not supported")


def _cluster_wide(entries: list[ConfigEntry]) -> list[ConfigEntry]:
    """What an empty broker name asks for: the settings made for all brokers at run time."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        replace(entry, value=synonym.value, source=source, synonyms=(synonym,))
        for entry in entries
        for synonym in entry.synonyms
        if synonym.source is source
    ]


def _entry(entry: ConfigEntry, *, synonyms: bool, docs: bool) -> Message:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source.value,
        "is_sensitive": False,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": synonym.source.value}
            for synonym in (entry.synonyms if synonyms else ())
        ],
        "config_type": entry.type.value,
        "documentation": entry.doc if docs else None,
    }


OPERATION = Operation(
    api_key=32, name="DescribeConfigs", min_version=1, max_version=4, handle=handle
)
