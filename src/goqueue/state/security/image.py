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


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityImage:
    """Everything by the name under which it is kept: rules and quotas by ids of their own."""

    users: Mapping[str, User] = field(default_factory=dict)
    rules: Mapping[str, Rule] = field(default_factory=dict)
    keys: Mapping[str, AccessKey] = field(default_factory=dict)
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    ended_sessions: Mapping[str, EndedSession] = field(default_factory=dict)
    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    quotas: Mapping[str, Quota] = field(default_factory=dict)

    def apply(self, edits: Mapping[SecurityKey, bytes | None]) -> "SecurityImage":
        """The same object where nothing is edited."""
        if not edits:
            return self
        changed: dict[str, dict[str, Any]] = {}
        for (kind, name), value in edits.items():
            kept = changed.setdefault(kind.value, dict(getattr(self, kind.value)))
            if value is None:
                kept.pop(name, None)
            else:
                kept[name] = decode_value(security_key(kind, name), value, _TYPES[kind])
        return replace(self, **changed)

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
