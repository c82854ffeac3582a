"""Rules: who may, or must not, do what with which things (Kafka's ACLs, by Kafka's numbers)."""

from enum import Enum
from typing import Final

import msgspec

from goqueue.model.rights import Resource, Verb

# Of a rule's principal and host, and of a literal name: all there are.
ANY: Final = "*"


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
