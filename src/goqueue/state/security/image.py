"""What the metadata says of access: a value that is replaced, never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import msgspec

from goqueue.model.security.keys import AccessKey
from goqueue.model.security.quotas import Quota
from goqueue.model.security.rules import Rule
from goqueue.model.security.sessions import EndedSession
from goqueue.model.security.tenants import Tenant
from goqueue.model.security.tokens import DelegationToken
from goqueue.model.security.users import User
from goqueue.state.metadata_keys import SecurityKey, SecurityKind, decode_value, security_key
from goqueue.state.parted_map import PartedMap


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityImage:
    """Everything by the name under which it is kept: rules and quotas by ids of their own."""

    users: PartedMap[User] = field(default_factory=PartedMap)
    rules: PartedMap[Rule] = field(default_factory=PartedMap)
    keys: PartedMap[AccessKey] = field(default_factory=PartedMap)
    tokens: PartedMap[DelegationToken] = field(default_factory=PartedMap)
    ended_sessions: PartedMap[EndedSession] = field(default_factory=PartedMap)
    tenants: PartedMap[Tenant] = field(default_factory=PartedMap)
    quotas: PartedMap[Quota] = field(default_factory=PartedMap)

    def apply(self, edits: Mapping[SecurityKey, bytes | None]) -> "SecurityImage":
        """The same object where nothing is edited."""
        if not edits:
            return self
        edited: dict[SecurityKind, dict[str, Any]] = {}
        for (kind, name), value in edits.items():
            edited.setdefault(kind, {})[name] = (
                None
                if value is None
                else decode_value(security_key(kind, name), value, _TYPES[kind])
            )
        kept = {kind.value: getattr(self, kind.value).changed(edited[kind]) for kind in edited}
        return replace(self, **kept)

    def has_rights_of(self, other: "SecurityImage") -> bool:
        """Whether everybody may do the same by both, for all that can be told at a glance."""
        return (
            self.rules is other.rules
            and self.users is other.users
            and self.tenants is other.tenants
        )


_TYPES: Final[Mapping[SecurityKind, type[msgspec.Struct]]] = {
    SecurityKind.USER: User,
    SecurityKind.RULE: Rule,
    SecurityKind.KEY: AccessKey,
    SecurityKind.TOKEN: DelegationToken,
    SecurityKind.ENDED_SESSION: EndedSession,
    SecurityKind.TENANT: Tenant,
    SecurityKind.QUOTA: Quota,
}
# The fields above are called as the kinds are.
assert {kind.value for kind in SecurityKind} == {each.name for each in fields(SecurityImage)}
