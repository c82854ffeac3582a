"""Tenants: made, listed, limited, removed, and what they have."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import Meta

from goqueue.doors.http.contents import refused_by_content
from goqueue.doors.http.openapi import errors
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.tenants import LIMITS_MAX, NAME_MAX_LENGTH, Tenant
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Tenants"]
_SEEING: Final = Need(Resource.CLUSTER, Verb.DESCRIBE)
_CHANGING: Final = Need(Resource.CLUSTER, Verb.ALTER)

TenantName = Annotated[
    str,
    Meta(min_length=1, max_length=NAME_MAX_LENGTH, description="Small letters, digits, hyphens."),
]
TenantInPath = Annotated[
    str, PathParameter(min_length=1, max_length=NAME_MAX_LENGTH, description="The tenant's name.")
]


class CreateTenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: TenantName
    limits: Annotated[
        dict[str, float],
        Meta(max_length=LIMITS_MAX, description="By their names; what is not there has none."),
    ] = {}


class AlterTenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limits: Annotated[
        dict[str, float | None],
        Meta(max_length=LIMITS_MAX, description="null takes one away; others stay."),
    ]


class TenantDescription(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    limits: dict[str, float]
    created_ms: int


class TenantList(msgspec.Struct, frozen=True):
    tenants: list[TenantDescription]


class Usage(msgspec.Struct, frozen=True, rename="camel"):
    """Of the brokers that answer; bytes without copies."""

    users: int
    topics: int
    partitions: int
    bytes: int
    groups: int
    transactional_ids: int
    subjects: int


@get("/tenants", tags=_TAGS, responses=errors(400, 403), opt={"needs": (_SEEING,)})
async def list_tenants(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> TenantList:
    """List all tenants."""
    return TenantList([_shown(each) for each in service.tenants.tenants(caller)])


@post(
    "/tenants",
    tags=_TAGS,
    responses=errors(400, 403, 409, 413, 415, 422),
    opt={"needs": (_CHANGING, _SEEING)},
)
async def create_tenant(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[CreateTenant],
) -> TenantDescription:
    """Create a tenant. Its users are created with its name."""
    with refused_by_content():
        return _shown(await service.tenants.create(caller, data.name, data.limits))


@get(
    "/tenants/{tenant:str}", tags=_TAGS, responses=errors(400, 403, 404), opt={"needs": (_SEEING,)}
)
async def show_tenant(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], tenant: TenantInPath
) -> TenantDescription:
    """Describe a tenant."""
    return _shown(service.tenants.tenant(caller, tenant))


@patch(
    "/tenants/{tenant:str}",
    tags=_TAGS,
    responses=errors(400, 403, 404, 413, 415, 422),
    opt={"needs": (_CHANGING,)},
)
async def alter_tenant(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    tenant: TenantInPath,
    data: JSONBody[AlterTenant],
) -> TenantDescription:
    """Change its limits."""
    with refused_by_content():
        return _shown(await service.tenants.set_limits(caller, tenant, data.limits))


@delete(
    "/tenants/{tenant:str}",
    tags=_TAGS,
    responses=errors(400, 403, 404, 409),
    opt={"needs": (_CHANGING, _SEEING)},
)
async def delete_tenant(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    tenant: TenantInPath,
    force: Annotated[
        bool,
        QueryParameter(description="With its users, topics, groups and subjects, if it has any."),
    ] = False,
) -> None:
    """Delete a tenant."""
    await service.tenants.delete(caller, tenant, is_forced=force)


@get(
    "/tenants/{tenant:str}/usage",
    tags=_TAGS,
    responses=errors(400, 403, 404),
    opt={"needs": (_SEEING,)},
)
async def show_usage(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], tenant: TenantInPath
) -> Usage:
    """What a tenant has."""
    return Usage(*await service.tenants.usage(caller, tenant))


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    list_tenants,
    create_tenant,
    show_tenant,
    alter_tenant,
    delete_tenant,
    show_usage,
)


def _shown(tenant: Tenant) -> TenantDescription:
    return TenantDescription(tenant.name, dict(tenant.limits), tenant.created_ms)
