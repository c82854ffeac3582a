"""Delegation tokens (KIP-48): made, renewed, ended. Their secrets are made from the master key."""

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

import msgspec

from goqueue.broker.security.master_key import MasterKey
from goqueue.broker.security.tenant_shares import TenantShares
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import Delete, Op, Put
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.caller import Principal
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import TokenOwner
from goqueue.model.security.errors import TokenExpired, TokenNotOwned, UnknownToken
from goqueue.model.security.tokens import DelegationToken
from goqueue.model.security.users import User
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature, first_use
from goqueue.state.parted_map import PartedMap

log = logging.getLogger(__name__)

# Each is read at every start and held by every broker.
TOKENS_MAX: Final = 10_000
# Of those that ended, in one round; what is left has the next one.
REMOVED_AT_ONCE_MAX: Final = 1_000
_ID_BYTES: Final = 16


class Tokens:
    def __init__(
        self,
        config: BrokerConfig,
        changes: KeyChanges,
        follower: MetadataFollower,
        clock_ms: Callable[[], int],
        master_key: Callable[[], MasterKey],
        shares: TenantShares,
    ) -> None:
        self._config = config
        self._changes = changes
        self._follower = follower
        self._clock_ms = clock_ms
        self._master_key = master_key
        self._shares = shares
        # By secret, for tokens are named by it where they are renewed and ended.
        self._by_hmac: dict[bytes, str] = {}
        self._indexed: PartedMap[DelegationToken] = PartedMap()

    def all(self) -> Iterable[DelegationToken]:
        """Whoever asks leaves out those that the caller may not see, and those that ended."""
        now_ms = self._clock_ms()
        return [each for each in self._stored.values() if each.expires_ms > now_ms]

    def hmac(self, token: DelegationToken) -> bytes:
        return self._master_key().secret("token", token.id)

    async def create(
        self,
        owner: TokenOwner,
        *,
        requester: Principal,
        renewers: Iterable[str],
        max_lifetime_ms: int | None,
        tenant: str,
        user: User | None,
        administers_cluster: bool = False,
    ) -> DelegationToken:
        """`user`: the owner, where the broker keeps it. `administers_cluster`: who asks
        does."""
        self._shares.check(
            keys.SecurityKind.TOKEN, TOKENS_MAX, tenant, administers_cluster=administers_cluster
        )
        # Never before its user, whose clock may have been another broker's.
        now_ms = max(self._clock_ms(), 0 if user is None else user.created_ms)
        longest_ms = self._config.delegation_token_max_lifetime_ms
        max_ms = now_ms + min(longest_ms, max_lifetime_ms or longest_ms)
        token = DelegationToken(
            id=secrets.token_urlsafe(_ID_BYTES),
            owner=owner,
            requester=str(requester),
            renewers=tuple(renewers),
            issued_ms=now_ms,
            expires_ms=min(max_ms, now_ms + self._config.delegation_token_expiry_time_ms),
            max_ms=max_ms,
            tenant=tenant,
            is_of_user=user is not None,
        )
        await self._change(token.id, lambda _: token)
        return token

    async def renew(self, asker: Principal, secret: bytes, period_ms: int | None) -> int:
        """Returns until when it lives now."""
        usual_ms = self._config.delegation_token_expiry_time_ms
        lifetime_ms = usual_ms if period_ms is None else min(usual_ms, period_ms)
        return await self._set_end(asker, secret, lambda now_ms: now_ms + lifetime_ms)

    async def expire(self, asker: Principal, secret: bytes, period_ms: int | None) -> int:
        """At once without a period."""
        if period_ms is not None:
            return await self._set_end(asker, secret, lambda now_ms: now_ms + period_ms)
        token_id = self._find(secret)

        def decide(current: DelegationToken | None) -> None:
            _check_may_change(asker, current)

        await self._change(token_id, decide)
        return self._clock_ms()

    async def expire_forever(self) -> None:
        """In a cluster one broker does it for all."""
        while True:
            await asyncio.sleep(self._config.delegation_token_expiry_check_interval_ms / 1000)
            if self._follower.image.controller_id == self._config.node_id:
                await self._remove_expired()

    async def _remove_expired(self) -> None:
        now_ms = self._clock_ms()
        ended = (each.id for each in self._stored.values() if each.expires_ms <= now_ms)

        def decide(current: DelegationToken | None) -> DelegationToken | None:
            # It may have been renewed by a broker whose clock is behind.
            return current if current is not None and current.expires_ms > now_ms else None

        try:
            for token_id in list(islice(ended, REMOVED_AT_ONCE_MAX)):
                await self._change(token_id, decide)
        except GoQueueError as error:
            log.warning("delegation tokens that ended are not removed for now: %s", error.message)

    async def _set_end(self, asker: Principal, secret: bytes, end_ms: Callable[[int], int]) -> int:
        token_id, expires_ms = self._find(secret), 0

        def decide(current: DelegationToken | None) -> DelegationToken:
            nonlocal expires_ms
            token, now_ms = _check_may_change(asker, current), self._clock_ms()
            if token.expires_ms <= now_ms:
                raise TokenExpired("the delegation token has ended")
            expires_ms = min(token.max_ms, end_ms(now_ms))
            return msgspec.structs.replace(token, expires_ms=expires_ms)

        await self._change(token_id, decide)
        return expires_ms

    @property
    def _stored(self) -> PartedMap[DelegationToken]:
        return self._follower.image.security.tokens

    def _find(self, secret: bytes) -> str:
        stored = self._stored
        for each, old, new in stored.differences(self._indexed):
            if old is not None:
                del self._by_hmac[self.hmac(old)]
            if new is not None:
                self._by_hmac[self.hmac(new)] = each
        self._indexed = stored
        token_id = self._by_hmac.get(secret)
        if token_id is None or not hmac.compare_digest(self.hmac(stored[token_id]), secret):
            raise UnknownToken("there is no such delegation token")
        return token_id

    async def _change(
        self,
        token_id: str,
        change: Callable[[DelegationToken | None], DelegationToken | None],
    ) -> None:
        key = keys.security_key(keys.SecurityKind.TOKEN, token_id)

        def decide(value: bytes | None) -> list[Op]:
            current = None if value is None else keys.decode_value(key, value, DelegationToken)
            token = change(current)
            if token is None:
                return [Delete(key)]
            level = first_use(self._follower.image, Feature.SECURITY)
            entry = keys.security_entry(keys.SecurityKind.TOKEN, token_id, token)
            return [Put(*entry), *(Put(*each) for each in level)]

        await self._changes.change(key, decide)


def _check_may_change(asker: Principal, token: DelegationToken | None) -> DelegationToken:
    if token is None:
        raise UnknownToken("there is no such delegation token")
    # The names are those of its tenant; others have users of the same names.
    is_named = str(asker) in (token.owner, *token.renewers)
    if not is_named or asker.tenant != token.tenant:
        raise TokenNotOwned(f"{asker} is neither owner nor renewer of the delegation token")
    return token
