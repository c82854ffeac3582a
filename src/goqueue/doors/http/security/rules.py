"""/rules: who may, or must not, do what with which things."""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Final, Literal

import msgspec
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta

from goqueue.doors.http.contents import refused_by_content
from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.long_lists import list_answer
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.security.users import TAGS
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import (
    ALL_VERBS,
    ANY,
    TEXT_MAX_LENGTH,
    Pattern,
    PatternFilter,
    Permission,
    RuleFilter,
)
from goqueue.model.security.rules import Rule as StoredRule
from goqueue.pace import in_slices
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

# Made together: one request changes as many keys of the metadata.
RULES_AT_ONCE_MAX: Final = 100
_LOOK: Final = Need(Resource.CLUSTER, Verb.DESCRIBE)
_CHANGE: Final = Need(Resource.CLUSTER, Verb.ALTER)

ResourceWord = Literal[
    "topic", "group", "cluster", "transactional_id", "delegation_token", "user", "subject"
]
OperationWord = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
    "create_tokens",
    "describe_tokens",
]
PatternWord = Literal["literal", "prefixed"]
FilterWord = Literal["any", "match", "literal", "prefixed"]
PermissionWord = Literal["allow", "deny"]
Text = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX_LENGTH)]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    resource: ResourceWord
    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=TEXT_MAX_LENGTH,
            description="`*` is all; the cluster's is `kafka-cluster`.",
        ),
    ]
    principal: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=TEXT_MAX_LENGTH,
            description="Such as `User:alice`; `User:*` is everyone.",
        ),
    ]
    operation: OperationWord
    pattern: PatternWord = "literal"
    host: Annotated[
        str, Meta(min_length=1, max_length=TEXT_MAX_LENGTH, description="An address, or `*`.")
    ] = ANY
    permission: PermissionWord = "allow"


class Rules(msgspec.Struct, frozen=True):
    rules: list[Rule]


class AddRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: Annotated[list[Rule], Meta(min_length=1, max_length=RULES_AT_ONCE_MAX)]


class DeletedRules(msgspec.Struct, frozen=True):
    deleted: list[Rule]


ResourceFilter = Annotated[
    ResourceWord | None, QueryParameter(name="resource", description="What they speak of.")
]
NameFilter = Annotated[
    str | None,
    QueryParameter(name="name", min_length=1, max_length=TEXT_MAX_LENGTH),
]
PatternQuery = Annotated[
    FilterWord,
    QueryParameter(
        name="pattern",
        description="How they name it; `match` takes all that count for a thing of the name.",
    ),
]
PrincipalFilter = Annotated[
    str | None,
    QueryParameter(name="principal", min_length=1, max_length=TEXT_MAX_LENGTH),
]
HostFilter = Annotated[
    str | None,
    QueryParameter(name="host", min_length=1, max_length=TEXT_MAX_LENGTH),
]
OperationFilter = Annotated[
    OperationWord | None,
    QueryParameter(name="operation", description="`all` takes rules that speak of all at once."),
]
PermissionFilter = Annotated[PermissionWord | None, QueryParameter(name="permission")]


@get("/rules", tags=TAGS, responses=errors(400, 403), opt={"needs": (_LOOK,)})
async def list_rules(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    resource: ResourceFilter = None,
    name: NameFilter = None,
    pattern: PatternQuery = "any",
    principal: PrincipalFilter = None,
    host: HostFilter = None,
    operation: OperationFilter = None,
    permission: PermissionFilter = None,
) -> Response[Rules]:
    """The rules that are like this; without any words, all."""
    wanted = _filter(resource, name, pattern, principal, host, operation, permission)
    return await list_answer(Rules, _all_shown(await service.rules.rules(caller, [wanted])))


@post(
    "/rules",
    tags=TAGS,
    responses=errors(400, 403, 409, 413, 415, 422),
    opt={"needs": (_CHANGE,)},
)
async def add_rules(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[AddRules],
) -> Response[Rules]:
    """Add rules, all of them or none. One that is there already stays."""
    made = [_read(each) for each in data.rules]
    with refused_by_content():
        await service.rules.add(caller, made)
    return await list_answer(Rules, _all_shown(made))


@delete(
    "/rules",
    tags=TAGS,
    status_code=200,
    responses=errors(400, 403, 409, 422),
    opt={"needs": (_CHANGE,)},
)
async def delete_rules(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    resource: ResourceFilter = None,
    name: NameFilter = None,
    pattern: PatternQuery = "any",
    principal: PrincipalFilter = None,
    host: HostFilter = None,
    operation: OperationFilter = None,
    permission: PermissionFilter = None,
) -> Response[DeletedRules]:
    """Remove the rules that are like this; at least one word must say which."""
    wanted = _filter(resource, name, pattern, principal, host, operation, permission)
    if wanted == RuleFilter():
        raise Refusal(
            422,
            "invalid_request",
            "resource, name, pattern, principal, host, operation, permission: say with at least "
            "one of them which rules to delete",
        )
    gone = await service.rules.remove(caller, [wanted])
    return await list_answer(DeletedRules, _all_shown(gone))


def _filter(
    resource: ResourceWord | None,
    name: str | None,
    pattern: FilterWord,
    principal: str | None,
    host: str | None,
    operation: OperationWord | None,
    permission: PermissionWord | None,
) -> RuleFilter:
    return RuleFilter(
        resource=None if resource is None else Resource[resource.upper()],
        name=name,
        pattern=PatternFilter[pattern.upper()],
        principal=principal,
        host=host,
        verb=_filter_verb(operation),
        permission=None if permission is None else Permission[permission.upper()],
    )


def _filter_verb(operation: OperationWord | None) -> Verb | Literal["all"] | None:
    if operation is None:
        return None
    return "all" if operation == ALL_VERBS else Verb[operation.upper()]


def _read(rule: Rule) -> StoredRule:
    return StoredRule(
        resource=Resource[rule.resource.upper()],
        name=rule.name,
        pattern=Pattern[rule.pattern.upper()],
        principal=rule.principal,
        host=rule.host,
        verb=None if rule.operation == ALL_VERBS else Verb[rule.operation.upper()],
        permission=Permission[rule.permission.upper()],
    )


def _all_shown(rules: Sequence[StoredRule]) -> AsyncIterator[Rule]:
    return in_slices(msgspec.convert(_shown(each), Rule) for each in rules)


def _shown(rule: StoredRule) -> dict[str, str]:
    return {
        "resource": rule.resource.name.lower(),
        "name": rule.name,
        "pattern": rule.pattern.name.lower(),
        "principal": rule.principal,
        "host": rule.host,
        "operation": ALL_VERBS if rule.verb is None else rule.verb.name.lower(),
        "permission": rule.permission.name.lower(),
    }


ROUTES: Final[Sequence[HTTPRouteHandler]] = (list_rules, add_rules, delete_rules)
