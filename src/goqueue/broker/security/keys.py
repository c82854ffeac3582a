"""Keys of users: made, shown once, known again by their digest, removed.

A key is as good as its user: it ends with it, and one that was made for an earlier user of the
same name is none of the later one's.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

from goqueue.broker.security.master_key import MasterKey
from goqueue.broker.security.tenant_shares import TenantShares
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Delete, Op, Put
from goqueue.model.errors import InvalidRequest, PolicyViolation
from goqueue.model.rights import ChangeableUser, RemovableKey, SeenKeyUsers
from goqueue.model.security.errors import UnknownKey, UnknownUser
from goqueue.model.security.keys import LABEL_MAX_LENGTH, TOKEN_PREFIX, AccessKey, KeyKind
from goqueue.model.security.users import User
from goqueue.pace import sorted_in_slices
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature, first_use
from goqueue.state.security.image import SecurityImage

# A key for each of its programs, and for those that follow them.
KEYS_PER_USER_MAX: Final = 100
# Each is read at every start and held by every broker.
KEYS_MAX: Final = 100_000
_API_ID_BYTES: Final = 8
_API_SECRET_BYTES: Final = 32
# AWS's are twenty capital letters and digits; SDKs take any, other tools look.
_SQS_PREFIX: Final = "GQ"
_SQS_ID_LENGTH: Final = 20
# Of which the letters are taken: eight for each five bytes.
_SQS_ID_BYTES: Final = 15
# What `secret` is asked for.
SQS_PURPOSE: Final = "sqs"


class MadeKey(NamedTuple):
    """`secret` is not kept: nobody can be told of it again, but for SQS."""

    key: AccessKey
    secret: str

    def __repr__(self) -> str:
        return f"MadeKey({self.key.id!r})"


class AccessKeys:
    def __init__(
        self,
        changes: KeyChanges,
        follower: MetadataFollower,
        clock_ms: Callable[[], int],
        master_key: Callable[[], MasterKey],
        shares: TenantShares,
    ) -> None:
        self._changes = changes
        self._follower = follower
        self._clock_ms = clock_ms
        self._master_key = master_key
        self._shares = shares

    @property
    def _image(self) -> SecurityImage:
        return self._follower.image.security

    # --- what is there --------------------------------------------------------------------

    def all(self, seen: SeenKeyUsers) -> AsyncIterator[AccessKey]:
        """Of each user the oldest first; in slices, as there may be many."""
        found = (each for each in self._image.keys.values() if each.user in seen)
        return sorted_in_slices(found, lambda each: (each.user, each.created_ms, each.id))

    def owner_of(self, key_id: str) -> str | None:
        key = self._image.keys.get(key_id)
        return None if key is None else key.user

    async def create(
        self,
        name: ChangeableUser,
        kind: KeyKind,
        *,
        administers_cluster: bool = False,
        label: str = "",
        expires_in_ms: int | None = None,
    ) -> MadeKey:
        """`administers_cluster`: who asks does."""
        if len(label) > LABEL_MAX_LENGTH:
            raise InvalidRequest(f"label: must have at most {LABEL_MAX_LENGTH} characters")
        image = self._image
        user = image.users.get(name)
        if user is None:
            raise UnknownUser(f"user {name!r} is not there")
        self._shares.check(
            keys.SecurityKind.KEY, KEYS_MAX, user.tenant, administers_cluster=administers_cluster
        )
        if self._shares.holdings.key_count(name) >= KEYS_PER_USER_MAX:
            raise PolicyViolation(f"user {name!r} has {KEYS_PER_USER_MAX} keys already")
        # Never before its user, whose clock may have been another broker's.
        now_ms = max(self._clock_ms(), user.created_ms)
        expires_ms = None if expires_in_ms is None else now_ms + expires_in_ms
        key_id, secret, digest = self._drawn(kind)
        key = AccessKey(
            id=key_id,
            kind=kind,
            user=name,
            digest=digest,
            label=label,
            created_ms=now_ms,
            expires_ms=expires_ms,
        )
        stored = keys.security_entry(keys.SecurityKind.KEY, key_id, key)

        def made(current: bytes | None) -> list[Op]:
            # 64 random bits and more; one that is there is never overwritten all the same.
            if current is not None:
                raise PolicyViolation("the drawn key id is in use; try again")
            level = first_use(self._follower.image, Feature.SECURITY)
            return [Put(*stored), *(Put(*each) for each in level)]

        await self._changes.change(stored.key, made)
        return MadeKey(key, secret)

    async def delete(self, key: RemovableKey) -> None:
        name = keys.security_key(keys.SecurityKind.KEY, key)

        def gone(current: bytes | None) -> list[Op]:
            if current is None:
                raise UnknownKey(f"key {key!r} is not there")
            return [Delete(name)]

        await self._changes.change(name, gone)

    def _drawn(self, kind: KeyKind) -> tuple[str, str, bytes]:
        if kind is KeyKind.SQS:
            letters = base64.b32encode(secrets.token_bytes(_SQS_ID_BYTES)).decode()
            key_id = (_SQS_PREFIX + letters)[:_SQS_ID_LENGTH]
            return key_id, self._sqs_secret(key_id), b""
        key_id = secrets.token_hex(_API_ID_BYTES)
        secret = secrets.token_hex(_API_SECRET_BYTES)
        return key_id, secret, hashlib.sha256(secret.encode()).digest()

    def _sqs_secret(self, key_id: str) -> str:
        return self._master_key().secret(SQS_PURPOSE, key_id).hex()

    # --- who shows one --------------------------------------------------------------------

    def holder(self, key_id: str, kind: KeyKind) -> User | None:
        """Whose key it is, if it is good now."""
        key = self._image.keys.get(key_id)
        if key is None or key.kind is not kind:
            return None
        if key.expires_ms is not None and key.expires_ms <= self._clock_ms():
            return None
        user = self._image.users.get(key.user)
        if user is None or user.created_ms > key.created_ms:
            return None
        return user

    def expires_ms(self, key_id: str) -> int | None:
        key = self._image.keys.get(key_id)
        return None if key is None else key.expires_ms

    def api_key_in(self, token: str) -> str | None:
        """The id of the key that a token shows, if its secret fits."""
        parts = token.removeprefix(TOKEN_PREFIX).split("_", 1)
        if len(parts) != 2:
            return None
        key_id, secret = parts
        key = self._image.keys.get(key_id)
        expected = b"" if key is None else key.digest
        digest = hashlib.sha256(secret.encode()).digest()
        return key_id if hmac.compare_digest(digest, expected) else None

    def sqs_secret(self, key_id: str) -> str | None:
        """None where there is no such key, or it is good no more."""
        return None if self.holder(key_id, KeyKind.SQS) is None else self._sqs_secret(key_id)
