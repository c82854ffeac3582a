"""Tenants: users and things that know nothing of those of others, with limits of their own."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.model.errors import InvalidRequest

NAME_MAX_LENGTH: Final = 63
# It stands before the names of its things, and in no name that a topic could have by itself.
SEPARATOR: Final = "@"
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9\-]*[a-z0-9])?")


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`limits` by their names; what is not there is not limited."""

    name: str
    limits: Mapping[str, float] = {}
    created_ms: int = 0


def check_tenant_name(name: str) -> None:
    if len(name) > NAME_MAX_LENGTH or _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"tenant name: must have 1 to {NAME_MAX_LENGTH} small letters, digits and hyphens, "
            "and begin and end with a letter or digit"
        )
