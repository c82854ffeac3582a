"""Users: who can log in, and by what. Of passwords only what proves them is kept (RFC 5802)."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.model.caller import Principal
from goqueue.model.errors import InvalidRequest

# Kafka's word for the principals of clients.
USER_KIND: Final = "User"
NAME_MAX_LENGTH: Final = 200
# More than anybody types; what is hashed is as long as this at most.
PASSWORD_MAX_LENGTH: Final = 1_024
# Names that begin so are the brokers' own.
RESERVED_PREFIX: Final = "__"
# As whom brokers log in to each other.
BROKERS_USER: Final = "__brokers__"
BROKER_KIND: Final = "Broker"
BROKERS: Final = Principal(BROKER_KIND, "brokers")
# A name is shown in logs, lies in a key of the metadata, and stands before a colon in Basic's.
_NAME: Final = re.compile(r"[^:/*]+")
# As the audit calls those whom nobody knows.
UNKNOWN_USER: Final = "?"


class ScramRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the server keeps of a password for one mechanism (RFC 5802, 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class User(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`scram` by mechanism; one without any logs in by keys, certificates or tokens alone.

    One that `is_admin` may do everything in its tenant; without a tenant, everything. One that is
    federated is meant by its name also where an identity provider or a certificate tells it. That
    is left out unless it is so: brokers of earlier releases do not know it.
    """

    name: str
    tenant: str = ""
    is_admin: bool = False
    is_federated: bool = False
    scram: Mapping[str, ScramRecord] = {}
    created_ms: int = 0

    @property
    def principal(self) -> Principal:
        return Principal(USER_KIND, self.name, self.tenant)


def check_user_name(name: str) -> None:
    if len(name) > NAME_MAX_LENGTH or _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"user name: must have 1 to {NAME_MAX_LENGTH} characters, and no colons, slashes or "
            "asterisks"
        )
    # Two users must not look the same in a list.
    if not unicodedata.is_normalized("NFC", name):
        raise InvalidRequest(
            "user name: must be written in Unicode's form NFC, with as few characters as it can be"
        )
    if not name.isprintable() or name != name.strip():
        raise InvalidRequest(
            "user name: must have no control characters or others that cannot be seen, and no "
            "spaces at its ends"
        )
    if name == UNKNOWN_USER:
        raise InvalidRequest(f"user name: {UNKNOWN_USER} stands for users that nobody knows")
    if name.startswith(RESERVED_PREFIX):
        raise InvalidRequest(f"user name: {RESERVED_PREFIX} at its beginning is for brokers")


def check_password(password: str) -> None:
    if not 1 <= len(password) <= PASSWORD_MAX_LENGTH:
        raise InvalidRequest(f"password: must have 1 to {PASSWORD_MAX_LENGTH} characters")
    if "\0" in password:
        raise InvalidRequest("password: must not have the character NUL")
