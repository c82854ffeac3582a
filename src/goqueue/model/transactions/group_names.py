"""Names of transactions that end together: many producers, one decision.

A transactional id of the form `goqueue.group/<group>/<member>` belongs to a group. All members of
a group are looked after by the same coordinator, which ends them at once. Behind the doors the
ids of a tenant begin with it, and so do its groups: `acme@goqueue.group/g/m` is of `acme@g`.
"""

import re
from typing import Final

from goqueue.model.security.tenants import SEPARATOR

MEMBER_PREFIX: Final = "goqueue.group/"
# Together with prefix and slashes below the 255 characters that the HTTP door takes as an id.
GROUP_ID_MAX_LENGTH: Final = 180
MEMBER_MAX_LENGTH: Final = 60
GROUP_ID_PATTERN: Final = rf"^[A-Za-z0-9._-]{{1,{GROUP_ID_MAX_LENGTH}}}$"

_GROUP_ID: Final = re.compile(GROUP_ID_PATTERN, re.ASCII)
_TENANT: Final = rf"(?:[a-z0-9-]+{SEPARATOR})?"
_MEMBER_ID: Final = re.compile(
    rf"({_TENANT}){re.escape(MEMBER_PREFIX)}([A-Za-z0-9._-]{{1,{GROUP_ID_MAX_LENGTH}}})"
    rf"/[A-Za-z0-9._-]{{1,{MEMBER_MAX_LENGTH}}}",
    re.ASCII,
)

_CLAIM: Final = re.compile(_TENANT + re.escape(MEMBER_PREFIX))


def is_group_id(text: str) -> bool:
    return _GROUP_ID.fullmatch(text) is not None


def member_id(group_id: str, member: str) -> str:
    """The transactional id of a group's member."""
    transactional_id = f"{MEMBER_PREFIX}{group_id}/{member}"
    if group_of(transactional_id) is None:
        raise ValueError(
            f"{transactional_id!r}: group (up to {GROUP_ID_MAX_LENGTH}) and member (up to "
            f"{MEMBER_MAX_LENGTH}) consist of ASCII letters, digits, '.', '_' and '-'"
        )
    return transactional_id


def group_of(transactional_id: str) -> str | None:
    """The group that a transactional id belongs to, if any."""
    found = _MEMBER_ID.fullmatch(transactional_id)
    return found[1] + found[2] if found is not None else None


def is_malformed(transactional_id: str) -> bool:
    """Whether it claims to be of a group, but does not say which."""
    return _CLAIM.match(transactional_id) is not None and group_of(transactional_id) is None


def shard_key(transactional_id: str) -> str:
    """What decides over the coordinator: the group if there is one, else the id itself."""
    group_id = group_of(transactional_id)
    return transactional_id if group_id is None else group_key(group_id)


def group_key(group_id: str) -> str:
    tenant, separator, local = group_id.rpartition(SEPARATOR)
    return tenant + separator + MEMBER_PREFIX + local
