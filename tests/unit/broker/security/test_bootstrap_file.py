"""The file with the first users: what it says, what is refused, and that it is read once."""

import asyncio
import base64
from pathlib import Path

import pytest

from goqueue.broker.security.bootstrap_file import ENTRIES_MAX, read_bootstrap_file
from goqueue.broker.security.first_users import add_user, begin_with
from goqueue.broker.security.users import records_of
from goqueue.metadata.local import LocalStore
from goqueue.model.errors import InvalidConfig
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.errors import UnknownTenant, UserExists
from goqueue.model.security.rules import Pattern, Permission
from goqueue.model.security.tenants import Tenant
from goqueue.model.security.users import User
from goqueue.state import metadata_keys as keys
from goqueue.state.security.scram import SHA_256, SHA_512, fits

ADMIN = '[[users]]\nname = "root"\npassword = "open sesame"\nadmin = true\n'
RULES = """
[[rules]]
principal = "User:alice"
resource = "topic"
name = "orders-"
pattern = "prefixed"
operation = "describe-configs"

[[rules]]
principal = "User:*"
resource = "group"
name = "*"
operation = "all"
permission = "deny"
host = "192.0.2.7"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users.toml"
    path.touch(mode=0o600)
    return path


def test_a_federated_user_needs_no_password(file: Path) -> None:
    told = '[[users]]\nname = "carol"\ntenant = "acme"\nfederated = true\n'
    file.write_text(ADMIN + told)
    root, carol = read_bootstrap_file(file, now_ms=7).users
    assert (root.is_federated, carol.is_federated, carol.scram) == (False, True, {})


def test_users_and_rules(file: Path) -> None:
    file.write_text(ADMIN + '[[users]]\nname = "alice"\npassword = "a"\ntenant = "acme"\n' + RULES)
    first = read_bootstrap_file(file, now_ms=7)
    root, alice = first.users
    assert (root.name, root.is_admin, root.tenant, root.created_ms) == ("root", True, "", 7)
    assert (alice.is_admin, alice.tenant) == (False, "acme")
    for mechanism in (SHA_256, SHA_512):
        assert fits(mechanism, root.scram[mechanism], "open sesame")
    one, two = first.rules
    assert (one.resource, one.verb, one.pattern) == (
        Resource.TOPIC,
        Verb.DESCRIBE_CONFIGS,
        Pattern.PREFIXED,
    )
    assert (two.verb, two.permission, two.host) == (None, Permission.DENY, "192.0.2.7")


def test_records_in_place_of_a_password(file: Path) -> None:
    record = records_of("secret")[SHA_256]
    file.write_text(
        '[[users]]\nname = "root"\nadmin = true\n[users.scram."SCRAM-SHA-256"]\n'
        f'salt = "{base64.b64encode(record.salt).decode()}"\niterations = {record.iterations}\n'
        f'stored_key = "{base64.b64encode(record.stored_key).decode()}"\n'
        f'server_key = "{base64.b64encode(record.server_key).decode()}"\n'
    )
    (root,) = read_bootstrap_file(file, now_ms=0).users
    assert root.scram == {SHA_256: record}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no user without a tenant has admin = true"),
        (ADMIN.replace("true", "false"), "no user without a tenant has admin = true"),
        # It may do nothing of the cluster.
        (ADMIN + 'tenant = "acme"', "no user without a tenant has admin = true"),
        (ADMIN + ADMIN, "'root' is there twice"),
        (ADMIN.replace("admin =", "amdin ="), "amdin"),
        (ADMIN.replace('password = "open sesame"\n', ""), "either password or scram"),
        (ADMIN.replace("open sesame", ""), "at least one character"),
        (ADMIN.replace('"root"', '"a:b"'), "user name"),
        (ADMIN.replace('"root"', '"__brokers__"'), "user name"),
        (ADMIN + 'tenant = "Not A Tenant"', "tenant name"),
        (ADMIN + RULES.replace("describe-configs", "fly"), "operation: 'fly' is none of read"),
        (ADMIN + RULES.replace('"topic"', '"tropic"'), "resource: 'tropic' is none of topic"),
        (ADMIN + RULES.replace("User:alice", "alice"), "principal"),
        (ADMIN + RULES.replace("192.0.2.7", "host.example"), "host must be an IP address"),
        ('password = "open sesame', "is not valid TOML"),
        (
            ADMIN + '[users.scram."SCRAM-SHA-1"]\nsalt=""\niterations=1\nstored_key=""\n'
            'server_key=""',
            "either password or scram",
        ),
        (
            '[[users]]\nname="r"\nadmin=true\n[users.scram."SCRAM-SHA-256"]\nsalt="AAAA"\n'
            'iterations=1\nstored_key="AAAA"\nserver_key="AAAA"',
            "iterations: 1 is not between 4096 and 16384",
        ),
        (
            '[[users]]\nname="r"\nadmin=true\n[users.scram."SCRAM-SHA-256"]\nsalt="?"\n'
            'iterations=4096\nstored_key="AAAA"\nserver_key="AAAA"',
            "salt: is not base64",
        ),
        (ADMIN + RULES * ENTRIES_MAX, f"may have {ENTRIES_MAX}"),
    ],
)
def test_what_is_refused_and_never_shows_a_password(file: Path, text: str, told: str) -> None:
    file.write_text(text)
    with pytest.raises(InvalidConfig) as refused:
        read_bootstrap_file(file, now_ms=0)
    assert told in str(refused.value)
    assert "security.bootstrap.file" in str(refused.value)
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_can_read_is_refused(file: Path, mode: int) -> None:
    file.write_text(ADMIN)
    file.chmod(mode)
    with pytest.raises(InvalidConfig, match="chmod 600"):
        read_bootstrap_file(file, now_ms=0)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="No such file"):
        read_bootstrap_file(tmp_path / "none.toml", now_ms=0)


def test_it_is_read_while_there_is_no_user_and_by_one_broker_alone(
    file: Path, tmp_path: Path
) -> None:
    file.write_text(ADMIN + RULES)

    async def race() -> list[bool]:
        store = await LocalStore.open(tmp_path / "metadata")
        try:
            return list(
                await asyncio.gather(*(begin_with(store, file, now_ms) for now_ms in range(5)))
            )
        finally:
            await store.close()

    assert sorted(asyncio.run(race())) == [False] * 4 + [True]

    file.unlink()

    async def again() -> tuple[bool, int, int]:
        store = await LocalStore.open(tmp_path / "metadata")
        try:
            # There is a user: the file is not looked for.
            made = await begin_with(store, file, 9)
            rules = await store.get_prefix(f"{keys.SECURITY_PREFIX}rules/")
            level = (await store.get(keys.FEATURE_LEVEL_KEY)).one
            assert level is not None
            return made, len(rules.kvs), keys.decode_value(level.key, level.value, int)
        finally:
            await store.close()

    assert asyncio.run(again()) == (False, 2, 3)


def test_a_user_is_added_once(tmp_path: Path) -> None:
    async def add_twice() -> None:
        store = await LocalStore.open(tmp_path / "metadata")
        try:
            await add_user(store, User(name="root", is_admin=True))
            with pytest.raises(UserExists, match="root"):
                await add_user(store, User(name="root"))
        finally:
            await store.close()

    asyncio.run(add_twice())


def test_users_of_tenants_have_them(file: Path, tmp_path: Path) -> None:
    """Those of the file are made with it; on a stopped broker they must be there."""
    file.write_text(ADMIN + '[[users]]\nname = "alice"\npassword = "a"\ntenant = "acme"\n')

    async def begin() -> None:
        store = await LocalStore.open(tmp_path / "metadata")
        try:
            assert await begin_with(store, file, 9)
            name = keys.security_key(keys.SecurityKind.TENANT, "acme")
            found = (await store.get(name)).one
            assert found is not None
            assert keys.decode_value(name, found.value, Tenant) == Tenant(name="acme", created_ms=9)
            await add_user(store, User(name="bob", tenant="acme"))
            with pytest.raises(UnknownTenant, match="zeta"):
                await add_user(store, User(name="carol", tenant="zeta"))
        finally:
            await store.close()

    asyncio.run(begin())
