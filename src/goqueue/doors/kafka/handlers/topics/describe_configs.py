"""DescribeConfigs: settings of topics and of this broker, with where each value comes from."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.config_resources import config_resource, needs_for, setting_row
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.rows import Rows
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.configs import ConfigEntry
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Verb

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4.request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )

# Each has some forty settings.
_LARGE_RESOURCES: Final = 10


async def handle(context: RequestContext, request: "DescribeConfigsRequest") -> Message:
    synonyms, docs = request.include_synonyms, request.include_documentation

    def described(resource: "DescribeConfigsResource") -> Message:
        return _described(context, resource, synonyms=synonyms, docs=docs)

    return {"results": Rows(tuple(dict.fromkeys(request.resources)), described)}


def _is_large(answer: Message) -> bool:
    return len(answer["results"]) > _LARGE_RESOURCES


def _described(
    context: RequestContext, resource: "DescribeConfigsResource", *, synonyms: bool, docs: bool
) -> Message:
    try:
        entries = context.service.administration.describe_config(
            context.caller, config_resource(resource)
        )
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


def _entry(entry: ConfigEntry, *, synonyms: bool, docs: bool) -> Message:
    return {
        **setting_row(entry),
        "synonyms": [
            {
                "name": synonym.name,
                "value": None if entry.is_sensitive else synonym.value,
                "source": synonym.source.value,
            }
            for synonym in (entry.synonyms if synonyms else ())
        ],
        "config_type": entry.type.value,
        "documentation": entry.doc if docs else None,
    }


OPERATION = Operation(
    api_key=32,
    name="DescribeConfigs",
    min_version=1,
    max_version=4,
    handle=handle,
    names_resources=True,
    needs=needs_for(Verb.DESCRIBE_CONFIGS),
    answers_with_many=_is_large,
    only_reads=True,
)
