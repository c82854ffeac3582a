"""/cluster/settings: what brokers go by, changed while they run."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get, patch
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.setting_values import SettingValue, setting_changes
from goqueue.model.caller import Caller
from goqueue.model.configs import ConfigEntry, ConfigResource, ConfigResourceKind
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Cluster"]
_NODE_PATTERN: Final = "^[0-9]{1,10}$"
# There are some two hundred.
_CHANGES_MAX: Final = 500

Node = Annotated[
    str | None,
    QueryParameter(
        pattern=_NODE_PATTERN,
        description="Number of a broker; without it: of all brokers together.",
    ),
]


class BrokerSetting(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str
    value: Annotated[str, Meta(description="Empty where isSecret is true.")]
    source: Annotated[
        str,
        Meta(
            description="Where it comes from: dynamic_broker (set of this broker), "
            "dynamic_default_broker (set of all), static_broker (given at the start), default."
        ),
    ]
    can_change: Annotated[bool, Meta(description="While the broker runs.")]
    doc: str
    is_secret: Annotated[bool, Meta(description="Its value is told to nobody.")] = False


class BrokerSettings(msgspec.Struct, frozen=True, rename="camel"):
    """By name. Of all brokers, and of another one than is asked: what was set while they ran."""

    settings: list[BrokerSetting]


class AlterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    config: Annotated[
        dict[str, SettingValue | None],
        Meta(
            max_length=_CHANGES_MAX,
            description="Settings to change, by their names or Kafka's; null takes back what was "
            "set while the broker ran.",
        ),
    ]


@get(
    "/cluster/settings",
    tags=_TAGS,
    responses=errors(400, 403, 404),
    opt={"needs": (Need(Resource.CLUSTER, Verb.DESCRIBE_CONFIGS),)},
)
async def cluster_settings(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    node: Node = None,
) -> BrokerSettings:
    """What holds, and where it comes from: what was set of a broker goes before what was set of
    all, then comes what it was started with."""
    return _shown(service.administration.describe_config(caller, _resource(node)))


@patch(
    "/cluster/settings",
    tags=_TAGS,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    opt={
        "needs": (
            Need(Resource.CLUSTER, Verb.ALTER_CONFIGS),
            Need(Resource.CLUSTER, Verb.DESCRIBE_CONFIGS),
        )
    },
)
async def alter_cluster_settings(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[AlterSettings],
    node: Node = None,
) -> BrokerSettings:
    """Change settings of one broker or of all, at once and for good. All are checked first."""
    resource, administration = _resource(node), service.administration
    # Before anything is changed: who may not see it gets no answer.
    administration.describe_config(caller, resource)
    await administration.alter_config(caller, resource, setting_changes(data.config))
    return _shown(administration.describe_config(caller, resource))


def _resource(node: str | None) -> ConfigResource:
    return ConfigResource(ConfigResourceKind.BROKER, node or "")


def _shown(entries: Sequence[ConfigEntry]) -> BrokerSettings:
    return BrokerSettings(
        [
            BrokerSetting(
                name=entry.name,
                value=entry.value,
                source=entry.source.name.lower(),
                can_change=not entry.read_only,
                is_secret=entry.is_sensitive,
                doc=entry.doc,
            )
            for entry in sorted(entries, key=lambda each: each.name)
        ]
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (cluster_settings, alter_cluster_settings)
