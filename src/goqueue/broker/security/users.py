"""Users: made, changed, removed; each change is one compare-and-set of the user's key."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from goqueue.broker.security.tenant_shares import TenantShares
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Delete, Op, Put
from goqueue.model.rights import AlterableCluster, ChangeableUser, DescribableCluster
from goqueue.model.security.errors import UnknownCredential, UnknownUser, UserExists
from goqueue.model.security.users import ScramRecord, User, check_user_name
from goqueue.pace import in_slices
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature, first_use
from goqueue.state.security.scram import HASHES, ITERATIONS_MIN, SALT_BYTES, make_record

# Each is read at every start and held by every broker.
USERS_MAX: Final = 100_000
# etcd takes 128 operations in a transaction.
DELETES_AT_ONCE: Final = 100


class Users:
    def __init__(
        self,
        changes: KeyChanges,
        follower: MetadataFollower,
        clock_ms: Callable[[], int],
        shares: TenantShares,
    ) -> None:
        self._changes = changes
        self._follower = follower
        self._shares = shares
        self._clock_ms = clock_ms

    def all(self, _cluster: DescribableCluster) -> Mapping[str, User]:
        return self._follower.image.security.users

    def find(self, name: str) -> User | None:
        """For what was already allowed."""
        return self._follower.image.security.users.get(name)

    async def create(
        self,
        _cluster: AlterableCluster,
        name: str,
        *,
        scram: Mapping[str, ScramRecord],
        administers_cluster: bool = False,
        tenant: str = "",
        is_admin: bool = False,
        is_federated: bool = False,
    ) -> User:
        """`administers_cluster`: who asks does. `is_admin`: the new user has every right of its
        tenant."""
        check_user_name(name)
        self._check_room(tenant, administers_cluster)
        user = User(
            name=name,
            tenant=tenant,
            is_admin=is_admin,
            is_federated=is_federated,
            scram=scram,
            created_ms=self._clock_ms(),
        )

        def made(current: User | None) -> User:
            if current is not None:
                raise UserExists(f"user {name!r} is there already")
            return user

        await self._change(name, made)
        return user

    async def set_scram(
        self,
        _cluster: AlterableCluster,
        name: str,
        changes: Mapping[str, ScramRecord | None],
        *,
        administers_cluster: bool = False,
        tenant: str = "",
    ) -> None:
        """Set or remove records by mechanism. Kafka's tools make users that way, of the `tenant`,
        and remove them by the last of their records: one that has no keys is gone then."""
        check_user_name(name)

        def changed(current: User | None) -> User | None:
            user = current or User(name=name, tenant=tenant, created_ms=self._clock_ms())
            if current is None:
                self._check_room(tenant, administers_cluster)
            if user.tenant != tenant and tenant:
                raise UserExists(f"user {name!r} is there already")
            for mechanism, record in changes.items():
                if record is None and mechanism not in user.scram:
                    raise UnknownCredential(f"user {name!r} has no {mechanism} credential")
            kept = {**user.scram, **changes}
            scram = {mechanism: record for mechanism, record in kept.items() if record is not None}
            is_kept = user.is_admin or user.is_federated or self._belongings(user)
            if not scram and not is_kept:
                return None
            return msgspec.structs.replace(user, scram=scram)

        await self._change(name, changed)

    async def set_admin(self, _cluster: AlterableCluster, name: str, is_admin: bool) -> None:
        await self._change(
            name, lambda current: msgspec.structs.replace(_known(name, current), is_admin=is_admin)
        )

    async def set_federated(self, _cluster: AlterableCluster, name: str, is_on: bool) -> None:
        await self._change(
            name, lambda current: msgspec.structs.replace(_known(name, current), is_federated=is_on)
        )

    async def set_password(self, name: ChangeableUser, scram: Mapping[str, ScramRecord]) -> None:
        await self._change(
            name, lambda current: msgspec.structs.replace(_known(name, current), scram=scram)
        )

    async def delete(self, _cluster: AlterableCluster, name: str) -> None:
        """With its keys and tokens: a later user of the same name does not come by them."""
        key = keys.security_key(keys.SecurityKind.USER, name)
        is_gone = False

        def decide(value: bytes | None) -> list[Op]:
            nonlocal is_gone
            user = _known(name, None if value is None else keys.decode_value(key, value, User))
            belongings = self._belongings(user)
            is_gone = len(belongings) <= DELETES_AT_ONCE
            ops = [Delete(each) for each in belongings[:DELETES_AT_ONCE]]
            return [*ops, Delete(key)] if is_gone else [*ops]

        while not is_gone:
            await self._changes.change(key, decide)

    async def delete_of_tenant(self, cluster: AlterableCluster, tenant: str) -> None:
        """With their keys and tokens; as many users in a step as the store takes."""
        users = self._follower.image.security.users
        names = [name async for name, each in in_slices(users.items()) if each.tenant == tenant]
        done = 0
        while done < len(names):
            some = await self._delete_some(tenant, names[done : done + DELETES_AT_ONCE])
            if not some:
                # It has more than fits.
                with suppress(UnknownUser):
                    await self.delete(cluster, names[done])
            done += some or 1

    async def _delete_some(self, tenant: str, names: Sequence[str]) -> int:
        """How many of the first are gone."""
        kind = keys.SecurityKind.USER
        stored = [keys.security_key(kind, name) for name in names]
        gone = 0

        def decide(values: Sequence[bytes | None]) -> list[Op]:
            nonlocal gone
            gone, ops = 0, list[Op]()
            for key, value in zip(stored, values, strict=True):
                user = None if value is None else keys.decode_value(key, value, User)
                # Somebody may have removed one, and made another one of the name.
                if user is not None and user.tenant == tenant:
                    belongings = self._belongings(user)
                    if len(ops) + len(belongings) >= DELETES_AT_ONCE:
                        break
                    ops += [Delete(each) for each in (*belongings, key)]
                gone += 1
            return ops

        await self._changes.change_all(stored, decide)
        return gone

    def _check_room(self, tenant: str, administers_cluster: bool) -> None:
        kind = keys.SecurityKind.USER
        self._shares.check(kind, USERS_MAX, tenant, administers_cluster=administers_cluster)

    def _belongings(self, user: User) -> list[str]:
        """Where its keys and tokens are kept."""
        holdings, kind = self._shares.holdings, keys.SecurityKind
        tokens = self._follower.image.security.tokens
        return [
            *(keys.security_key(kind.KEY, each) for each in holdings.keys_of(user.name)),
            *(
                keys.security_key(kind.TOKEN, each)
                for each in holdings.tokens_of(str(user.principal))
                if each in tokens and tokens[each].tenant == user.tenant
            ),
        ]

    async def _change(self, name: str, change: Callable[[User | None], User | None]) -> None:
        key = keys.security_key(keys.SecurityKind.USER, name)

        def decide(value: bytes | None) -> list[Op]:
            current = None if value is None else keys.decode_value(key, value, User)
            user = change(current)
            if user is None:
                return [Delete(key)]
            level = first_use(self._follower.image, Feature.SECURITY)
            entry = keys.security_entry(keys.SecurityKind.USER, name, user)
            return [Put(*entry), *(Put(*each) for each in level)]

        await self._changes.change(key, decide)


def records_of(password: str, iterations: int = ITERATIONS_MIN) -> dict[str, ScramRecord]:
    """For every mechanism; takes some milliseconds, so not on the event loop."""
    return {
        mechanism: make_record(
            mechanism, password, salt=secrets.token_bytes(SALT_BYTES), iterations=iterations
        )
        for mechanism in HASHES
    }


def _known(name: str, user: User | None) -> User:
    if user is None:
        raise UnknownUser(f"user {name!r} is not there")
    return user
