"""Whom quotas are for, as Kafka names them."""

from collections.abc import Iterable, Mapping
from typing import Final

from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import InvalidRequest
from goqueue.model.security.quotas import QuotaEntity

# Kafka's entity types, and the parts of an entity that they are.
PARTS: Final[Mapping[str, str]] = {"user": "user", "client-id": "client_id", "ip": "ip"}


def entity_row(entity: QuotaEntity) -> list[Message]:
    """Null is Kafka's name for the default."""
    return [
        {"entity_type": kind, "entity_name": name or None}
        for kind, part in PARTS.items()
        if (name := getattr(entity, part)) is not None
    ]


def entity_of(named: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    parts: dict[str, str] = {}
    for kind, name in named:
        if kind not in PARTS:
            raise InvalidRequest(f"entity type {kind!r}: must be one of {', '.join(PARTS)}")
        if PARTS[kind] in parts:
            raise InvalidRequest(f"entity type {kind}: given more than once")
        if name == "":
            raise InvalidRequest(f"{kind}: an empty name is not supported; null is the default")
        parts[PARTS[kind]] = name or ""
    if not parts:
        raise InvalidRequest("entity: must not be empty")
    return QuotaEntity(**parts)
