"""Quotas: what users, clients and addresses may use per second (KIP-13, 257, 546, 599, 612)."""

import ipaddress
import math
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from goqueue.model.errors import GoQueueError, InvalidRequest

# Each is read at every start, held by every broker, and listed in one answer.
QUOTAS_MAX: Final = 10_000
# As long as Kafka's own limit of what a resource is called.
ENTITY_NAME_MAX_LENGTH: Final = 255


class QuotaKind(Enum):
    """What is measured, by Kafka's name; all are per second and broker.

    `REQUESTS` is the share of a broker's event loop, in percent. `MUTATIONS` are partitions that
    are made or deleted.
    """

    PRODUCED = "producer_byte_rate"
    FETCHED = "consumer_byte_rate"
    REQUESTS = "request_percentage"
    MUTATIONS = "controller_mutation_rate"
    CONNECTIONS = "connection_creation_rate"


_OF_ADDRESSES: Final = frozenset({QuotaKind.CONNECTIONS.value})
_OF_CLIENTS: Final = frozenset(kind.value for kind in QuotaKind) - _OF_ADDRESSES
# Kafka keeps these as whole numbers.
_WHOLE: Final = frozenset(
    {QuotaKind.PRODUCED.value, QuotaKind.FETCHED.value, QuotaKind.CONNECTIONS.value}
)


class QuotaEntity(NamedTuple):
    """Whom a quota is for. None: it does not speak of that; `""`: those who have none of their own
    (Kafka's `<default>`). An address goes with nothing else."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def key(self) -> str:
        """Under which it is kept."""
        named = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return urlencode({name: value for name, value in named.items() if value is not None})

    def __str__(self) -> str:
        named = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return ", ".join(
            f"{name} {value!r}" if value else f"every {name} without a quota of its own"
            for name, value in named
            if value is not None
        )


class Quota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`values` by Kafka's names, such as `producer_byte_rate`."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
    values: Mapping[str, float] = {}

    @property
    def entity(self) -> QuotaEntity:
        return QuotaEntity(self.user, self.client_id, self.ip)


class QuotaChange(NamedTuple):
    """New values by name; None takes one away."""

    entity: QuotaEntity
    values: Mapping[str, float | None]


class QuotaFilter(NamedTuple):
    """Which quotas are asked for. `names`: the parts of an entity that must be so, by the fields of
    `QuotaEntity`. `present`: parts that must be there, whatever they are. `strict`: no other
    parts."""

    names: Mapping[str, str] = {}
    present: frozenset[str] = frozenset()
    strict: bool = False

    def matches(self, entity: QuotaEntity) -> bool:
        parts = {name for name, value in entity._asdict().items() if value is not None}
        wanted = self.present.union(self.names)
        return (
            all(getattr(entity, name) == value for name, value in self.names.items())
            and self.present <= parts
            and (not self.strict or parts == wanted)
        )


class QuotaOwner(NamedTuple):
    """Who uses something up: everything that counts against the same quota together."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
    tenant: str | None = None


class QuotaUsage(NamedTuple):
    """`used` is what was used per second of late, `ratio` that by the quota, `wait_ms` how long the
    owner is held back now."""

    kind: QuotaKind
    owner: QuotaOwner
    quota: float
    used: float
    ratio: float
    wait_ms: int


class QuotaExceeded(GoQueueError):
    """To be tried again after `retry_after_ms`."""

    code = "quota_exceeded"
    retriable = True
    retry_after_ms: int

    def __init__(self, message: str, retry_after_ms: int) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class LimitReached(GoQueueError):
    """A tenant has as much as it may have; the message names the limit."""

    code = "limit_reached"


def check_quota_entity(entity: QuotaEntity) -> None:
    """As Kafka's controller does."""
    if entity.ip is not None and (entity.user is not None or entity.client_id is not None):
        raise InvalidRequest("quota entity: ip does not go together with user or client-id")
    if entity == QuotaEntity():
        raise InvalidRequest("quota entity: must name a user, a client-id or an ip")
    for name, value in (("user", entity.user), ("client-id", entity.client_id)):
        if value is not None and len(value) > ENTITY_NAME_MAX_LENGTH:
            raise InvalidRequest(
                f"quota entity: {name} must have at most {ENTITY_NAME_MAX_LENGTH} characters"
            )
    if entity.ip:
        try:
            ipaddress.ip_address(entity.ip)
        except ValueError:
            raise InvalidRequest(f"quota entity: ip {entity.ip!r} is not an address") from None


def check_quota_values(entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
    known = _OF_CLIENTS if entity.ip is None else _OF_ADDRESSES
    for name, value in values.items():
        if name not in known:
            raise InvalidRequest(f"quota {name!r}: must be one of {', '.join(sorted(known))}")
        if value is None:
            continue
        if not math.isfinite(value) or value <= 0:
            raise InvalidRequest(f"quota {name}: must be greater than 0")
        if name in _WHOLE and abs(value - round(value)) > 1e-6:
            raise InvalidRequest(f"quota {name}: must be a whole number")
