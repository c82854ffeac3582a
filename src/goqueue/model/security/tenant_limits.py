"""What a tenant may have and use, by the names in `Tenant.limits`; what is not named is unlimited.

Rates hold at each broker by itself, as Kafka's quotas do; so do storage, connections, groups and
messages in flight, which are counted where they are. Topics and partitions are counted in the
whole cluster.
"""

from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Final

from goqueue.model.errors import InvalidRequest
from goqueue.model.security.quotas import QuotaKind


class TenantLimit(Enum):
    PRODUCED = "producer_byte_rate"
    FETCHED = "consumer_byte_rate"
    REQUESTS = "request_percentage"
    STORAGE = "storage_bytes"
    TOPICS = "topics"
    PARTITIONS = "partitions"
    GROUPS = "groups"
    CONNECTIONS = "connections"
    IN_FLIGHT = "in_flight_messages"


# Those that are measured as quotas are; the others are counted.
RATES: Final[Mapping[TenantLimit, QuotaKind]] = {
    TenantLimit.PRODUCED: QuotaKind.PRODUCED,
    TenantLimit.FETCHED: QuotaKind.FETCHED,
    TenantLimit.REQUESTS: QuotaKind.REQUESTS,
}
_NAMES: Final = frozenset(limit.value for limit in TenantLimit)
_RATE_NAMES: Final = frozenset(limit.value for limit in RATES)


def check_tenant_limits(limits: Mapping[str, float]) -> None:
    for name, value in limits.items():
        if name not in _NAMES:
            raise InvalidRequest(f"limit {name!r}: must be one of {', '.join(sorted(_NAMES))}")
        if not isfinite(value) or value < 0 or (value == 0 and name in _RATE_NAMES):
            least = "greater than 0" if name in _RATE_NAMES else "0 or more"
            raise InvalidRequest(f"limit {name}: must be {least}")
