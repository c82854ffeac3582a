"""Rules as Kafka's messages have them: by numbers, with two more for any and for unknown."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, Literal, TypeVar

from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import InvalidRequest
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import (
    ALL_VERBS,
    Pattern,
    PatternFilter,
    Permission,
    Rule,
    RuleFilter,
)

# Kafka's numbers for what a filter leaves open, and for every operation at once.
_ANY: Final = 1
_ALL: Final = 2
# Subjects are not Kafka's: its tools are told of them only if they ask by the number.
KAFKA_RESOURCES: Final = tuple(each for each in Resource if each is not Resource.SUBJECT)


K = TypeVar("K", bound=Enum)


def read_rule(creation: Any, tenant: str) -> Rule:
    number = creation.operation
    return Rule(
        resource=_resource(creation.resource_type),
        name=creation.resource_name,
        pattern=_known(Pattern, creation.resource_pattern_type, "pattern type"),
        principal=creation.principal,
        host=creation.host,
        verb=None if number == _ALL else _known(Verb, number, "operation"),
        permission=_known(Permission, creation.permission_type, "permission type"),
        tenant=tenant,
    )


def read_filters(request: Any, tenant: str) -> list[RuleFilter]:
    """Of a DescribeAcls request, or of one filter of a DeleteAcls request; several where Kafka's
    one leaves the resource type open."""
    kind = request.resource_type_filter
    resources = KAFKA_RESOURCES if kind == _ANY else (_resource(kind),)
    pattern = _known(PatternFilter, request.pattern_type_filter, "pattern type")
    return list(_filters(request, tenant, resources, pattern))


def _filters(
    request: Any, tenant: str, resources: tuple[Resource, ...], pattern: PatternFilter
) -> Iterator[RuleFilter]:
    operation, permission = request.operation, request.permission_type
    for resource in resources:
        yield RuleFilter(
            resource=resource,
            name=request.resource_name_filter,
            pattern=pattern,
            principal=request.principal_filter,
            host=request.host_filter,
            verb=_verb_filter(operation),
            permission=None
            if permission == _ANY
            else _known(Permission, permission, "permission type"),
            tenant=tenant,
        )


def _verb_filter(number: int) -> Verb | Literal["all"] | None:
    if number == _ANY:
        return None
    return ALL_VERBS if number == _ALL else _known(Verb, number, "operation")


def entry(rule: Rule) -> Message:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": _ALL if rule.verb is None else rule.verb.value,
        "permission_type": rule.permission.value,
    }


def _resource(number: int) -> Resource:
    return _known(Resource, number, "resource type")


def _known(kind: type[K], number: int, word: str) -> K:
    try:
        return kind(number)
    except ValueError:
        raise InvalidRequest(f"rule: {word} {number} is unknown, or not for this") from None
