"""Users that are made without asking anybody: before there are any, or on a stopped broker.

Each is one transaction. Of several brokers of a cluster that start at once, one makes the users of
the bootstrap file: all of them compare the same key.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from goqueue.broker.security.bootstrap_file import SETTING, read_bootstrap_file
from goqueue.metadata.store import Compare, MetadataStore, Op, Put
from goqueue.model.errors import Conflict
from goqueue.model.security.errors import UnknownTenant, UserExists
from goqueue.model.security.rules import rule_id
from goqueue.model.security.tenants import Tenant
from goqueue.model.security.users import User
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature, first_use
from goqueue.state.metadata_image import MetadataImage

logger = logging.getLogger(__name__)

# Who compares it wants to be the only one to make first users. It says nothing by itself; brokers
# pass over keys that they do not know.
TURN_KEY: Final = "/first-users"
# A lost race is found out by reading once more.
_TRIES: Final = 5


async def begin_with(store: MetadataStore, path: Path, now_ms: int) -> bool:
    """Make what the file says if there is no user; whether that was so."""
    for _ in range(_TRIES):
        turn = (await store.get(TURN_KEY)).one
        if await _has_users(store):
            return False
        first = await asyncio.to_thread(read_bootstrap_file, path, now_ms)
        revision = 0 if turn is None else turn.mod_revision
        user, rule = keys.SecurityKind.USER, keys.SecurityKind.RULE
        puts: list[Op] = [Put(TURN_KEY, b"{}")]
        puts += [Put(*keys.security_entry(user, each.name, each)) for each in first.users]
        puts += [Put(*keys.security_entry(rule, rule_id(each), each)) for each in first.rules]
        puts += await _tenants(store, first.tenants, now_ms)
        puts += await _level(store)
        if (await store.transact([Compare.unchanged(TURN_KEY, revision)], puts)).succeeded:
            logger.info(
                "made %d users and %d rules of %s, which is not read again while there are users: "
                "remove it",
                len(first.users),
                len(first.rules),
                path,
            )
            return True
    raise Conflict(f"{SETTING}: other brokers make users all the time; try again")


async def add_user(store: MetadataStore, user: User) -> None:
    """`UserExists` if it is there, `UnknownTenant` where its tenant is not."""
    if user.tenant and (await store.get(_tenant_key(user.tenant))).one is None:
        raise UnknownTenant(
            f"tenant {user.tenant!r} is not there; an administrator makes it at the running broker"
        )
    entry = keys.security_entry(keys.SecurityKind.USER, user.name, user)
    puts = [Put(*entry), *await _level(store)]
    if not (await store.transact([Compare.missing(entry.key)], puts)).succeeded:
        raise UserExists(f"user {user.name!r} is there already")


def _tenant_key(name: str) -> str:
    return keys.security_key(keys.SecurityKind.TENANT, name)


async def _tenants(store: MetadataStore, names: Sequence[str], now_ms: int) -> list[Op]:
    """Those that are not there yet: a user of none could not be told from one of a later tenant."""
    kind = keys.SecurityKind.TENANT
    return [
        Put(*keys.security_entry(kind, name, Tenant(name=name, created_ms=now_ms)))
        for name in names
        if (await store.get(_tenant_key(name))).one is None
    ]


async def _has_users(store: MetadataStore) -> bool:
    prefix = keys.security_key(keys.SecurityKind.USER, "")
    return bool((await store.get_prefix(prefix)).kvs)


async def _level(store: MetadataStore) -> list[Op]:
    found = await store.get_prefix(keys.ROOT_PREFIX)
    image = MetadataImage.load(
        ((kv.key, kv.value, kv.mod_revision) for kv in found.kvs), revision=found.revision
    )
    return [Put(*entry) for entry in first_use(image, Feature.SECURITY)]
