"""/audit: what callers did and were refused lately."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.unanswered import UnansweredBrokers, show_unanswered
from goqueue.model.audit import AuditEntry
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1_000
_TEXT_MAX: Final = 256


class AuditedEvent(msgspec.Struct, frozen=True, rename="camel"):
    time_ms: Annotated[int, Meta(description="When, or when for the last time; since 1970 (UTC).")]
    event: Annotated[str, Meta(description="Such as login, access or topic.create.")]
    outcome: Annotated[str, Meta(description="success, failure, refused, or unknown.")]
    principal: str
    tenant: str
    door: str
    address: str
    client_id: str
    resource: Annotated[str, Meta(description="What kind of thing it was about.")]
    name: str
    detail: dict[str, str]
    error: Annotated[str, Meta(description="The code of what went wrong.")]
    count: Annotated[int, Meta(description="How often within a minute, of what is gathered.")]
    node: Annotated[int, Meta(description="The broker that was asked.")]


class AuditedEvents(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The newest first."""

    events: list[AuditedEvent]
    unanswered: UnansweredBrokers = []


@get(
    "/audit",
    tags=["Operations"],
    opt={"needs": (Need(Resource.CLUSTER, Verb.DESCRIBE),)},
    responses=errors(400, 403),
)
async def audit(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    limit: Annotated[
        int, QueryParameter(ge=1, le=LIMIT_MAX, description="Events in the answer at most.")
    ] = LIMIT_DEFAULT,
    principal: Annotated[
        str | None, QueryParameter(max_length=_TEXT_MAX, description="Such as User:alice.")
    ] = None,
    event: Annotated[
        str | None,
        QueryParameter(
            max_length=_TEXT_MAX, description="Such as topic.delete, or topic for all of topics."
        ),
    ] = None,
) -> AuditedEvents:
    """Log-ins, refusals and administrative changes of all brokers, as far as they remember: the
    newest 5,000 of each. All of them are in the topic `__audit` and in the brokers' files."""
    found = await service.audit.recent(caller, limit=limit, principal=principal, event=event)
    return AuditedEvents(
        [_shown(each) for each in found.entries], show_unanswered(found.unanswered)
    )


def _shown(entry: AuditEntry) -> AuditedEvent:
    return AuditedEvent(
        time_ms=entry.time_ms,
        event=entry.event,
        outcome=entry.outcome.value,
        principal=entry.principal,
        tenant=entry.tenant,
        door=entry.door,
        address=entry.address,
        client_id=entry.client_id,
        resource=entry.resource,
        name=entry.name,
        detail=dict(entry.detail),
        error=entry.error,
        count=entry.count,
        node=entry.node,
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (audit,)
