"""`security.bootstrap.file`: the first users and rules, as their TOML file has them."""

import base64
import binascii
import os
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from goqueue.broker.security.users import records_of
from goqueue.model.errors import GoQueueError, InvalidConfig
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import ANY, Pattern, Permission, Rule, check_rule
from goqueue.model.security.tenants import check_tenant_name
from goqueue.model.security.users import ScramRecord, User, check_user_name
from goqueue.state.security.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN

SETTING: Final = "security.bootstrap.file"
# They are written at once, and etcd takes 128 operations in a transaction. More are made by the
# first administrator.
ENTRIES_MAX: Final = 100
_BYTES_MAX: Final = 1024 * 1024
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_ALL_VERBS: Final = "all"


class FirstUsers(NamedTuple):
    users: list[User]
    rules: list[Rule]

    @property
    def tenants(self) -> list[str]:
        """That the others belong to."""
        users = {user.tenant for user in self.users}
        return sorted({*users, *(rule.tenant for rule in self.rules)} - {""})


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    salt: str
    iterations: int
    stored_key: str
    server_key: str


class _User(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    password: str | None = None
    scram: dict[str, _Record] = {}
    admin: bool = False
    tenant: str = ""
    federated: bool = False


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    principal: str
    resource: str
    operation: str
    name: str
    pattern: str = "literal"
    host: str = ANY
    permission: str = "allow"
    tenant: str = ""


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    users: list[_User] = []
    rules: list[_Rule] = []


def read_bootstrap_file(path: Path, now_ms: int) -> FirstUsers:
    """Blocking, for passwords cost processor time. `InvalidConfig` names the file and the field,
    and never a password."""
    try:
        content = msgspec.convert(_read(path), _Content)
        return _checked(content, now_ms)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"{SETTING}: {path}: {error}") from None
    except InvalidConfig:
        raise
    except GoQueueError as error:
        raise InvalidConfig(f"{SETTING}: {path}: {error.message}") from None


def _read(path: Path) -> Mapping[str, object]:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidConfig(f"{SETTING}: {path}: {error.strerror}") from None
    if mode & _OTHERS:
        raise InvalidConfig(
            f"{SETTING}: {path}: others than its owner may use the file (mode "
            f"{stat.S_IMODE(mode):o}), and it holds passwords; run: chmod 600 {path}"
        )
    if len(text) > _BYTES_MAX:
        raise InvalidConfig(f"{SETTING}: {path}: has more than {_BYTES_MAX} bytes")
    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # Its words show a part of the line, which may be a password.
        raise InvalidConfig(f"{SETTING}: {path}: is not valid TOML") from None


def _checked(content: _Content, now_ms: int) -> FirstUsers:
    tenants = {user.tenant for user in content.users}
    tenants = {*tenants, *(rule.tenant for rule in content.rules)} - {""}
    count = len(content.users) + len(content.rules) + len(tenants)
    if count > ENTRIES_MAX:
        raise InvalidConfig(
            f"{SETTING}: has {count} users, rules and tenants, and may have {ENTRIES_MAX}; make "
            "the others with `goqueue users create` and `goqueue acls add`"
        )
    for tenant in tenants:
        check_tenant_name(tenant)
    if not any(user.admin and not user.tenant for user in content.users):
        raise InvalidConfig(
            f"{SETTING}: no user without a tenant has admin = true; nobody could make other users "
            "or rules"
        )
    names = [user.name for user in content.users]
    for name in names:
        if names.count(name) > 1:
            raise InvalidConfig(f"{SETTING}: user {name!r} is there twice")
    users = [_user(each, now_ms) for each in content.users]
    return FirstUsers(users, [_rule(each) for each in content.rules])


def _user(told: _User, now_ms: int) -> User:
    check_user_name(told.name)
    given = (told.password is not None) + bool(told.scram)
    if given > 1 or (not given and not told.federated):
        raise InvalidConfig(f"{SETTING}: user {told.name!r}: give either password or scram records")
    if told.password is not None:
        check_password(told.password, f"{SETTING}: user {told.name!r}")
        scram = records_of(told.password)
    else:
        scram = {
            mechanism: _record(told.name, mechanism, record)
            for mechanism, record in told.scram.items()
        }
    return User(
        name=told.name,
        tenant=told.tenant,
        is_admin=told.admin,
        is_federated=told.federated,
        scram=scram,
        created_ms=now_ms,
    )


def check_password(password: str, source: str) -> None:
    """No control characters: a line's end that came along would never be typed again."""
    if not password or any(ord(letter) < 32 or ord(letter) == 127 for letter in password):
        raise InvalidConfig(
            f"{source}: the password must have at least one character, and no control characters"
        )


def _record(name: str, mechanism: str, told: _Record) -> ScramRecord:
    where = f"{SETTING}: user {name!r}: scram.{mechanism}"
    if mechanism not in HASHES:
        raise InvalidConfig(f"{where}: there are {' and '.join(HASHES)}")
    if not ITERATIONS_MIN <= told.iterations <= ITERATIONS_MAX:
        raise InvalidConfig(
            f"{where}: iterations: {told.iterations} is not between {ITERATIONS_MIN} and "
            f"{ITERATIONS_MAX}"
        )
    return ScramRecord(
        salt=_bytes(told.salt, f"{where}: salt"),
        iterations=told.iterations,
        stored_key=_bytes(told.stored_key, f"{where}: stored_key"),
        server_key=_bytes(told.server_key, f"{where}: server_key"),
    )


def _bytes(text: str, where: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        found = b""
    if not found:
        raise InvalidConfig(f"{where}: is not base64")
    return found


def _rule(told: _Rule) -> Rule:
    verb = None
    if told.operation != _ALL_VERBS:
        verb = Verb[_choice(told.operation, (each.name for each in Verb), "operation")]
    rule = Rule(
        resource=Resource[_choice(told.resource, (each.name for each in Resource), "resource")],
        name=told.name,
        pattern=Pattern[_choice(told.pattern, (each.name for each in Pattern), "pattern")],
        principal=told.principal,
        host=told.host,
        verb=verb,
        permission=Permission[
            _choice(told.permission, (each.name for each in Permission), "permission")
        ],
        tenant=told.tenant,
    )
    check_rule(rule)
    return rule


def _choice(text: str, names: Iterable[str], field: str) -> str:
    known = list(names)
    name = text.upper().replace("-", "_")
    if name not in known:
        words = ", ".join(each.lower() for each in known)
        raise InvalidConfig(f"{SETTING}: rules: {field}: {text!r} is none of {words}")
    return name
