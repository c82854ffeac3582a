"""/clients/subscriptions: which Kafka clients push which of their metrics (KIP-714)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from litestar import delete, get, put
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.whole_numbers import whole
from goqueue.model.caller import Caller
from goqueue.model.client_metrics.config import (
    ALL_METRICS,
    INTERVAL_MAX_MS,
    INTERVAL_MIN_MS,
    MATCHED_ATTRIBUTES,
    NAME_MAX_LENGTH,
    PREFIX_MAX_LENGTH,
    PREFIXES_MAX,
    ClientMetricsConfig,
    client_metrics_config,
)
from goqueue.model.configs import ConfigResource, ConfigResourceKind
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Operations"]
_PATTERN_MAX_LENGTH: Final = 1_000
# Lists are kept with commas between.
_ITEM_PATTERN: Final = r"^[^,\s](?:[^,]*[^,\s])?$"
_LOOK: Final = Need(Resource.CLUSTER, Verb.DESCRIBE_CONFIGS)
_CHANGE: Final = Need(Resource.CLUSTER, Verb.ALTER_CONFIGS)

Name = Annotated[
    str,
    PathParameter(
        min_length=1,
        max_length=NAME_MAX_LENGTH,
        # No part of a path is a name with a slash, or that of a folder.
        pattern=r"^(?!\.{1,2}$)[^/\x00-\x1f\x7f]+$",
        description="The subscription's name.",
    ),
]
Prefix = Annotated[str, Meta(min_length=1, max_length=PREFIX_MAX_LENGTH, pattern=_ITEM_PATTERN)]
Pattern = Annotated[str, Meta(min_length=1, max_length=_PATTERN_MAX_LENGTH, pattern=_ITEM_PATTERN)]


class Subscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    metrics: Annotated[
        list[Prefix],
        Meta(
            min_length=1,
            max_length=PREFIXES_MAX,
            description=f"Prefixes of names of metrics; {ALL_METRICS} is all.",
        ),
    ]
    interval_ms: Annotated[
        float,
        Meta(
            ge=INTERVAL_MIN_MS,
            le=INTERVAL_MAX_MS,
            multiple_of=1,
            description="How often clients push.",
        ),
    ] = ClientMetricsConfig().interval_ms
    match: Annotated[
        dict[str, Pattern],
        Meta(
            description="Regular expressions that all must match, by what they are about; without "
            "any, all clients push.",
            extra_json_schema={"propertyNames": {"enum": list(MATCHED_ATTRIBUTES)}},
        ),
    ] = {}


class ClientSubscription(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    metrics: list[str]
    interval_ms: int
    match: dict[str, str]


class ClientSubscriptions(msgspec.Struct, frozen=True):
    subscriptions: list[ClientSubscription]


@get("/clients/subscriptions", tags=_TAGS, responses=errors(403), opt={"needs": (_LOOK,)})
async def client_subscriptions(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> ClientSubscriptions:
    """All subscriptions to the metrics of Kafka clients, by name."""
    administration = service.administration
    names = sorted(
        each.name
        for each in administration.config_resources(caller)
        if each.kind is ConfigResourceKind.CLIENT_METRICS
    )
    return ClientSubscriptions([_shown(service, caller, name) for name in names])


@put(
    "/clients/subscriptions/{name:str}",
    tags=_TAGS,
    responses=errors(400, 403, 409, 413, 415, 422),
    opt={"needs": (_CHANGE, _LOOK)},
)
async def subscribe_to_clients(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    name: Name,
    data: JSONBody[Subscribe],
) -> ClientSubscription:
    """Make a subscription, or replace what it says. Clients learn of it with their next request."""
    resource = _resource(name)
    # Before anything is changed: who may not see it gets no answer.
    service.administration.describe_config(caller, resource)
    texts = {
        "metrics": ",".join(data.metrics),
        "interval.ms": str(whole(data.interval_ms)),
    }
    if data.match:
        texts["match"] = ",".join(f"{each}={text}" for each, text in data.match.items())
    await service.administration.replace_config(caller, resource, texts)
    return _shown(service, caller, name)


@delete(
    "/clients/subscriptions/{name:str}",
    tags=_TAGS,
    responses=errors(400, 403),
    opt={"needs": (_CHANGE,)},
)
async def unsubscribe_from_clients(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], name: Name
) -> None:
    """Clients stop to push; one that is not there is fine."""
    await service.administration.replace_config(caller, _resource(name), {})


def _resource(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceKind.CLIENT_METRICS, name)


def _shown(service: BrokerService, caller: Caller, name: str) -> ClientSubscription:
    entries = service.administration.describe_config(caller, _resource(name))
    texts: Mapping[str, str] = {entry.name: entry.value for entry in entries}
    config = client_metrics_config(texts)
    return ClientSubscription(
        name=name,
        metrics=list(config.metrics),
        interval_ms=config.interval_ms,
        match=config.patterns,
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    client_subscriptions,
    subscribe_to_clients,
    unsubscribe_from_clients,
)
