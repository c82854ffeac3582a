"""Quotas: what users, clients and addresses may use per second (KIP-13, 257, 546, 599, 612)."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec


class QuotaEntity(NamedTuple):
    """Whom a quota is for. None: it does not speak of that; `""`: those who have none of their own
    (Kafka's `<default>`). An address goes with nothing else."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class Quota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`values` by Kafka's names, such as `producer_byte_rate`."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
    values: Mapping[str, float] = {}

    @property
    def entity(self) -> QuotaEntity:
        return QuotaEntity(self.user, self.client_id, self.ip)
