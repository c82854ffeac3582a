"""Rules: who may, or must not, do what with which things (Kafka's ACLs, by Kafka's numbers)."""

import hashlib
import re
from enum import Enum
from ipaddress import ip_address
from typing import Final, Literal

import msgspec

from goqueue.model.errors import InvalidRequest
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb

# Of a rule's principal and host, and of a literal name: all there are.
ANY: Final = "*"
# In a filter: rules without a verb, which speak of all.
ALL_VERBS: Final = "all"
# Every rule is held by every broker. Names of topics have 249 characters at most; groups,
# transactional ids and subjects that have rules of their own should get along with this.
TEXT_MAX_LENGTH: Final = 1_024
# NUL, as in Kafka; and halves of characters, which cannot be written.
_UNFIT: Final = re.compile("[\\0\ud800-\udfff]")
# Of the 256 bits of a hash: two rules share an id by no accident or effort.
_ID_LENGTH: Final = 40


class Pattern(Enum):
    """How a rule names things; by Kafka's numbers (KIP-290)."""

    LITERAL = 3
    PREFIXED = 4


class Permission(Enum):
    DENY = 2
    ALLOW = 3


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`principal` is written `User:alice`, and `User:*` for all; `host` is an address or `*`.

    `verb` None: every verb. `tenant`: whose principals and things it speaks of.
    """

    resource: Resource
    name: str
    pattern: Pattern = Pattern.LITERAL
    principal: str
    host: str = ANY
    verb: Verb | None = None
    permission: Permission = Permission.ALLOW
    tenant: str = ""


class PatternFilter(Enum):
    """Which patterns a filter takes; by Kafka's numbers (KIP-290)."""

    ANY = 1
    # Rules that count for a thing of this name: by its name, a prefix of it, or all.
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class RuleFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that are alike. None: any. `verb` "all": those that speak of every verb at once."""

    resource: Resource | None = None
    name: str | None = None
    pattern: PatternFilter = PatternFilter.ANY
    principal: str | None = None
    host: str | None = None
    verb: Verb | Literal["all"] | None = None
    permission: Permission | None = None
    # None: of every tenant; only those who belong to none may ask for that.
    tenant: str | None = ""

    def takes(self, rule: Rule) -> bool:
        return (
            self.resource in (None, rule.resource)
            and self._takes_name(rule)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and (self.verb is None or self.verb == (rule.verb or ALL_VERBS))
            and self.permission in (None, rule.permission)
            and self.tenant in (None, rule.tenant)
        )

    def _takes_name(self, rule: Rule) -> bool:
        if self.pattern is PatternFilter.MATCH:
            return self.name is None or _counts_for(rule, self.name)
        if self.pattern is not PatternFilter.ANY and self.pattern.value != rule.pattern.value:
            return False
        return self.name in (None, rule.name)


def _counts_for(rule: Rule, name: str) -> bool:
    if rule.pattern is Pattern.PREFIXED:
        return name.startswith(rule.name)
    return rule.name in (name, ANY)


def check_rule(rule: Rule) -> None:
    """Kafka's demands, and that a rule can count at all: one for a host by its name never would."""
    for field in ("name", "principal", "host"):
        text: str = getattr(rule, field)
        if not text or len(text) > TEXT_MAX_LENGTH or _UNFIT.search(text):
            raise InvalidRequest(
                f"rule: {field} must have 1 to {TEXT_MAX_LENGTH} whole characters, and no NUL"
            )
    if rule.resource is Resource.CLUSTER and rule.name != CLUSTER_NAME:
        raise InvalidRequest(f"rule: the only name of the cluster is {CLUSTER_NAME}")
    kind, _, name = rule.principal.partition(":")
    if not kind or not name:
        raise InvalidRequest(
            f"rule: principal must be written as User:alice, not {rule.principal!r}"
        )
    if rule.host != ANY and not _is_address(rule.host):
        raise InvalidRequest(
            f"rule: host must be an IP address or {ANY}, not {rule.host!r}; names are not looked up"
        )


def _is_address(text: str) -> bool:
    try:
        # As addresses of clients are written; another spelling would never be theirs.
        return str(ip_address(text)) == text
    except ValueError:
        return False


def rule_id(rule: Rule) -> str:
    """By its content: a rule that is made twice is there once."""
    content = msgspec.json.encode(
        (
            rule.tenant,
            rule.resource,
            rule.name,
            rule.pattern,
            rule.principal,
            rule.host,
            rule.verb,
            rule.permission,
        )
    )
    return hashlib.sha256(content).hexdigest()[:_ID_LENGTH]
