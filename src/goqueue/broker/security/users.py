"""Users: made, changed, removed; each change is one compare-and-set of the user's key."""

import secrets
from collections.abc import Callable, Mapping

import msgspec

from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Delete, Op, Put
from goqueue.model.errors import PolicyViolation
from goqueue.model.rights import AlterableCluster, DescribableCluster
from goqueue.model.security.errors import UnknownUser, UserExists
from goqueue.model.security.users import ScramRecord, User, check_user_name
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature, first_use
from goqueue.state.security.scram import HASHES, ITERATIONS_MIN, SALT_BYTES, make_record

# Each is read at every start and held by every broker.
USERS_MAX = 100_000


class Users:
    def __init__(
        self, changes: KeyChanges, follower: MetadataFollower, clock_ms: Callable[[], int]
    ) -> None:
        self._changes = changes
        self._follower = follower
        self._clock_ms = clock_ms

    def all(self, _cluster: DescribableCluster) -> Mapping[str, User]:
        return self._follower.image.security.users

    async def create(
        self,
        _cluster: AlterableCluster,
        name: str,
        *,
        scram: Mapping[str, ScramRecord],
        tenant: str = "",
        is_admin: bool = False,
    ) -> User:
        check_user_name(name)
        if len(self._follower.image.security.users) >= USERS_MAX:
            raise PolicyViolation(f"there are {USERS_MAX} users already")
        user = User(
            name=name, tenant=tenant, is_admin=is_admin, scram=scram, created_ms=self._clock_ms()
        )

        def made(current: User | None) -> User:
            if current is not None:
                raise UserExists(f"user {name!r} is there already")
            return user

        await self._change(name, made)
        return user

    async def set_scram(
        self, _cluster: AlterableCluster, name: str, changes: Mapping[str, ScramRecord | None]
    ) -> None:
        """Set or remove records by mechanism. Kafka's tools make users that way, and remove them by
        the last of their records."""
        check_user_name(name)

        def changed(current: User | None) -> User | None:
            user = current or User(name=name, created_ms=self._clock_ms())
            kept = {**user.scram, **changes}
            scram = {mechanism: record for mechanism, record in kept.items() if record is not None}
            return msgspec.structs.replace(user, scram=scram)

        await self._change(name, changed)

    async def set_admin(self, _cluster: AlterableCluster, name: str, is_admin: bool) -> None:
        await self._change(
            name, lambda current: msgspec.structs.replace(_known(name, current), is_admin=is_admin)
        )

    async def delete(self, _cluster: AlterableCluster, name: str) -> None:
        def gone(current: User | None) -> None:
            _known(name, current)

        await self._change(name, gone)

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
