"""Tenants: users and things that know nothing of those of others, with limits of their own."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from goqueue.model.errors import InvalidRequest

NAME_MAX_LENGTH: Final = 63
# More than there are to set.
LIMITS_MAX: Final = 100
# It stands before the names of its things, and in no name that a topic could have by itself.
SEPARATOR: Final = "@"
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9\-]*[a-z0-9])?")

_PATTERN_MARK: Final = "*"
_PATTERN: Final = re.compile(rf"\*({_NAME.pattern}{SEPARATOR})")


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`limits` by their names; what is not there is not limited."""

    name: str
    limits: Mapping[str, float] = {}
    created_ms: int = 0


class TenantUsage(NamedTuple):
    """What a tenant has; bytes without copies."""

    users: int
    topics: int
    partitions: int
    bytes: int
    groups: int
    transactional_ids: int
    subjects: int

    @property
    def has_any(self) -> bool:
        return any(self)

    def __str__(self) -> str:
        named = self._asdict().items()
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in named if count)


def inner_name(tenant: str, name: str) -> str:
    """What a tenant calls `name`, as it is called behind the doors; without a tenant, the same."""
    return f"{tenant}{SEPARATOR}{name}" if tenant else name


def local_name(tenant: str, name: str) -> str:
    """As its tenant calls it."""
    return name.removeprefix(f"{tenant}{SEPARATOR}") if tenant else name


def local_text(tenant: str, text: str) -> str:
    """What the broker says of a tenant's things, in the tenant's words."""
    return text.replace(f"{tenant}{SEPARATOR}", "") if tenant else text


def tenant_of_topic(name: str) -> str:
    """Topics without a tenant have no separator in their names; all other names may have one."""
    tenant, separator, _ = name.partition(SEPARATOR)
    return tenant if separator else ""


def inner_pattern(tenant: str, pattern: str) -> str:
    """A regular expression over names of a tenant. None begins as it does: there is nothing before
    its asterisk that could be repeated, so that RE2 refuses those of others that begin so."""
    if tenant:
        return f"{_PATTERN_MARK}{tenant}{SEPARATOR}{pattern}"
    return f"{_PATTERN_MARK}{pattern}" if pattern.startswith(_PATTERN_MARK) else pattern


def split_pattern(pattern: str) -> tuple[str, str]:
    """What names must begin with, and the expression for the rest of them."""
    found = _PATTERN.match(pattern)
    return ("", pattern) if found is None else (found[1], pattern[found.end() :])


def check_tenant_name(name: str) -> None:
    if len(name) > NAME_MAX_LENGTH or _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"tenant name: must have 1 to {NAME_MAX_LENGTH} small letters, digits and hyphens, "
            "and begin and end with a letter or digit"
        )
