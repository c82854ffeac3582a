"""/quotas: what users, clients and addresses may use per second, and what they use."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get, patch
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import UNSET, Meta, UnsetType

from goqueue.doors.http.contents import refused_by_content
from goqueue.doors.http.openapi import errors
from goqueue.model.caller import Caller
from goqueue.model.errors import InvalidRequest
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.quotas import Quota, QuotaChange, QuotaEntity, QuotaUsage
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Quotas"]
# In one request; each is a write of its own.
_CHANGES_MAX: Final = 100
# There are five.
_VALUES_MAX: Final = 10
_NAME_MAX: Final = 255

Name = Annotated[str, Meta(max_length=_NAME_MAX)]
_USER: Final = Meta(description='User; "" is every user without a quota of its own.')
_CLIENT: Final = Meta(description='Client id; "" is every one without a quota of its own.')
_IP: Final = Meta(description='Address; "" is every one without a quota of its own.')


class QuotaValues(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`values` by Kafka's names: producer_byte_rate, consumer_byte_rate, request_percentage,
    controller_mutation_rate; of addresses connection_creation_rate. Per second and broker."""

    values: dict[str, float]
    user: Annotated[str | None, _USER] = None
    client_id: Annotated[str | None, _CLIENT] = None
    ip: Annotated[str | None, _IP] = None


class QuotaList(msgspec.Struct, frozen=True):
    quotas: list[QuotaValues]


class QuotaAlteration(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    user: Annotated[Name, _USER] | UnsetType = UNSET
    client_id: Annotated[Name, _CLIENT] | UnsetType = UNSET
    ip: Annotated[Name, _IP] | UnsetType = UNSET
    set: Annotated[
        dict[str, float], Meta(max_length=_VALUES_MAX, description="New values by name.")
    ] = {}
    remove: Annotated[
        list[str], Meta(max_length=_VALUES_MAX, description="Values to take away.")
    ] = []


class AlterQuotas(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    changes: Annotated[list[QuotaAlteration], Meta(min_length=1, max_length=_CHANGES_MAX)]


class UsedQuota(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Everything that counts against one quota together."""

    name: Annotated[str, Meta(description="Of the value, such as producer_byte_rate.")]
    quota: float
    used: Annotated[float, Meta(description="Per second, of late.")]
    ratio: Annotated[float, Meta(description="What is used by what may be.")]
    wait_ms: Annotated[int, Meta(description="For how long it is held back now.")]
    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
    tenant: str | None = None


class UsedQuotas(msgspec.Struct, frozen=True):
    usage: Annotated[
        list[UsedQuota], Meta(description="Of this broker; the first hundred by their ratio.")
    ]


@get(
    "/quotas",
    tags=_TAGS,
    responses=errors(403),
    opt={"needs": (Need(Resource.CLUSTER, Verb.DESCRIBE_CONFIGS),)},
)
async def list_quotas(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> QuotaList:
    """All quotas that are set."""
    return _shown(service.quotas.describe(caller))


@patch(
    "/quotas",
    tags=_TAGS,
    responses=errors(400, 403, 409, 413, 415, 422),
    opt={
        "needs": (
            Need(Resource.CLUSTER, Verb.ALTER_CONFIGS),
            Need(Resource.CLUSTER, Verb.DESCRIBE_CONFIGS),
        )
    },
)
async def alter_quotas(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[AlterQuotas],
) -> QuotaList:
    """Set and remove values; all changes are checked before the first is made. Answers with all
    quotas."""
    # Before anything is changed: who may not see it gets no answer.
    service.quotas.describe(caller)
    with refused_by_content():
        changes = [_change(position, each) for position, each in enumerate(data.changes)]
        await service.quotas.alter_all(caller, changes)
    return _shown(service.quotas.describe(caller))


@get(
    "/quotas/usage",
    tags=_TAGS,
    responses=errors(403),
    opt={"needs": (Need(Resource.CLUSTER, Verb.DESCRIBE_CONFIGS),)},
)
async def quota_usage(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> UsedQuotas:
    """Who uses how much of its quotas at this broker, and who is held back."""
    return UsedQuotas([_used(each) for each in service.quotas.usage(caller)])


def _change(position: int, given: QuotaAlteration) -> QuotaChange:
    both = set(given.set).intersection(given.remove)
    if both:
        raise InvalidRequest(f"changes[{position}]: {', '.join(sorted(both))}: set and removed")
    entity = QuotaEntity(
        None if given.user is UNSET else given.user,
        None if given.client_id is UNSET else given.client_id,
        None if given.ip is UNSET else given.ip,
    )
    return QuotaChange(entity, {**given.set, **dict.fromkeys(given.remove)})


def _shown(quotas: Sequence[Quota]) -> QuotaList:
    return QuotaList(
        [QuotaValues(dict(each.values), each.user, each.client_id, each.ip) for each in quotas]
    )


def _used(usage: QuotaUsage) -> UsedQuota:
    return UsedQuota(
        name=usage.kind.value,
        quota=usage.quota,
        used=round(usage.used, 3),
        ratio=round(usage.ratio, 4),
        wait_ms=usage.wait_ms,
        **usage.owner._asdict(),
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (list_quotas, alter_quotas, quota_usage)
