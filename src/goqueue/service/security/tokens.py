"""Delegation tokens (KIP-48): who may make, see, renew and end them."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.errors import InvalidRequest
from goqueue.model.rights import Resource
from goqueue.model.security.errors import TokenNotAllowed, UnknownUser
from goqueue.model.security.tokens import DelegationToken
from goqueue.model.security.users import USER_KIND
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited

# All of them are kept with the token.
RENEWERS_MAX: Final = 100


class HeldToken(NamedTuple):
    """With the secret that is shown to whoever may see the token."""

    token: DelegationToken
    hmac: bytes

    def __repr__(self) -> str:
        return f"HeldToken({self.token!r})"


class TokenService:
    def __init__(self, node: Node, access: Access) -> None:
        self._security = node.security
        self._access = access

    @audited("token.create", Resource.DELEGATION_TOKEN, detail=("owner", "renewers"))
    async def create(
        self,
        caller: Caller,
        *,
        owner: str | None,
        renewers: Sequence[str],
        max_lifetime_ms: int | None,
        by_token: bool,
    ) -> HeldToken:
        """`owner` and `renewers` are names of users; None: the caller's own. `by_token`: the
        caller logged in by a token itself."""
        asks = caller.principal
        held_by = str(asks) if owner is None else f"{USER_KIND}:{owner}"
        right = self._access.token_owner(caller, held_by)
        self._check_allowed(by_token=by_token)
        if asks.kind != USER_KIND:
            raise TokenNotAllowed("delegation tokens are for users")
        if len(renewers) > RENEWERS_MAX:
            raise InvalidRequest(f"renewers: {len(renewers)} are more than {RENEWERS_MAX}")
        name = asks.name if owner is None else owner
        user = self._security.image.users.get(name)
        if name == asks.name:
            # The caller, who may be known to an identity provider alone, and another tenant may
            # have a user of that name.
            user = user if user is not None and user.tenant == asks.tenant else None
        elif user is None or asks.tenant not in ("", user.tenant):
            raise UnknownUser(f"user {name!r} is not there")
        token = await self._security.tokens.create(
            right,
            requester=asks,
            renewers=[f"{USER_KIND}:{each}" for each in renewers],
            max_lifetime_ms=max_lifetime_ms,
            tenant=asks.tenant if user is None else user.tenant,
            user=user,
            administers_cluster=self._access.administers_cluster(caller),
        )
        return HeldToken(token, self._security.tokens.hmac(token))

    @audited("token.renew", Resource.DELEGATION_TOKEN)
    async def renew(
        self, caller: Caller, hmac: bytes, period_ms: int | None, *, by_token: bool
    ) -> int:
        """None: for as long as usual. Returns when it ends now."""
        self._check_allowed(by_token=by_token)
        return await self._security.tokens.renew(caller.principal, hmac, period_ms)

    @audited("token.expire", Resource.DELEGATION_TOKEN)
    async def expire(
        self, caller: Caller, hmac: bytes, period_ms: int | None, *, by_token: bool
    ) -> int:
        """None: at once. Returns when it ends now."""
        self._check_allowed(by_token=by_token)
        return await self._security.tokens.expire(caller.principal, hmac, period_ms)

    def tokens(
        self, caller: Caller, owners: Collection[str] | None, *, by_token: bool
    ) -> list[HeldToken]:
        """Those of the owners, by their names, that the caller may see; None: of all."""
        wanted = None if owners is None else {f"{USER_KIND}:{each}" for each in owners}
        tokens = self._security.tokens
        found = [
            HeldToken(token, tokens.hmac(token))
            for token in tokens.all()
            if (wanted is None or token.owner in wanted)
            and caller.principal.tenant in ("", token.tenant)
            and self._access.sees_token(caller, token)
        ]
        self._check_allowed(by_token=by_token)
        return found

    def _check_allowed(self, *, by_token: bool) -> None:
        """As in Kafka, who has a token neither makes it last nor comes by others of its owner:
        those are shown with their secrets."""
        if not self._security.is_on:
            raise TokenNotAllowed("there are no delegation tokens while security is off")
        if by_token:
            raise TokenNotAllowed("who logged in by a delegation token has no say about tokens")
