"""Who somebody is, by what it shows. Every door asks here, and nowhere else."""

import asyncio
from typing import Final

from goqueue.broker.node import Node
from goqueue.model.caller import Principal
from goqueue.model.security.errors import AuthenticationFailed, TooManyLogIns
from goqueue.model.security.logins import CERTIFICATE, Login
from goqueue.model.security.users import BROKERS, User
from goqueue.service.security.log_in_notes import LogInNotes
from goqueue.state.security.outside_names import meant_by

OAUTHBEARER: Final = "OAUTHBEARER"
_PASSWORD: Final = "password"


class Authentication:
    """What fails is `AuthenticationFailed` after a while, whatever it was that failed."""

    def __init__(self, node: Node) -> None:
        self._security = node.security
        self.notes = LogInNotes(node)

    @property
    def is_on(self) -> bool:
        return self._security.is_on

    async def by_password(self, name: str, password: str) -> Principal:
        since_s = asyncio.get_running_loop().time()
        try:
            found = await self.of_password(name, password, self.notes.address)
        except TooManyLogIns:
            await self.delay(since_s)
            raise
        if found is None:
            self.notes.failed(_PASSWORD, name)
            await self.delay(since_s)
            raise AuthenticationFailed("authentication failed: user name or password are wrong")
        self.notes.succeeded(found.principal, _PASSWORD)
        return found.principal

    async def of_password(self, name: str, password: str, address: str) -> User | None:
        """As `by_password`, without the delay and without a note: who asks sees to it."""
        user = self._security.image.users.get(name)
        passwords = self._security.passwords
        return user if await passwords.fits(name, user, password, address=address) else None

    async def by_jwt(self, token: str) -> Login:
        """By a token of the identity provider."""
        try:
            login = await self.of_jwt(token, self.notes.address)
        except TooManyLogIns:
            await self.delay()
            raise
        except AuthenticationFailed:
            self.notes.failed(OAUTHBEARER)
            await self.delay()
            raise AuthenticationFailed("authentication failed: the token is not valid") from None
        self.notes.succeeded(login.principal, OAUTHBEARER)
        return login

    async def of_jwt(self, token: str, address: str) -> Login:
        """As `by_jwt`, without the delay, and with the reason, which is not for the client.

        A name that is no user's can be given rights all the same, as in Kafka.
        """
        bearer_tokens = self._security.bearer_tokens
        if bearer_tokens is None:
            raise AuthenticationFailed("there is no identity provider (oauth.jwks.file)")
        bearer = bearer_tokens.known(token)
        if bearer is None:
            # Nobody guesses one, but a flood of wrong ones would take what others need.
            guesses = self._security.guesses
            await guesses.turn_from(address)
            bearer = await bearer_tokens.verify(token)
            guesses.was_right_from(address)
        return self._of_outside(bearer.name, OAUTHBEARER, bearer.expires_ms)

    def of_certificate(self, name: str) -> Login:
        """By the name that rules (tls.principal.mapping.rules) found in a verified certificate."""
        return self._of_outside(name, CERTIFICATE)

    def _of_outside(self, name: str, mechanism: str, expires_ms: int | None = None) -> Login:
        meant = meant_by(name, self._security.image.users)
        if meant is None:
            raise AuthenticationFailed(
                "its name is that of a user who is not federated (goqueue users federate)"
            )
        return Login(
            principal=meant.principal,
            mechanism=mechanism,
            expires_ms=expires_ms,
            user_created_ms=meant.user_created_ms,
            is_outside=True,
        )

    def holds(self, login: Login) -> bool:
        """Whether a log-in is still worth something; quick, for every request. Not by the time,
        which whoever has the log-in looks at."""
        if login.token_id is not None and login.token_id not in self._security.image.tokens:
            return False
        users = self._security.image.users
        if login.is_outside:
            meant = meant_by(login.principal.name, users)
            return meant == (login.principal, login.user_created_ms)
        if login.user_created_ms is None:
            return True
        user = users.get(login.principal.name)
        return user is not None and user.created_ms == login.user_created_ms

    def is_current(self, principal: Principal) -> bool:
        """Whether who logged in earlier is still somebody; quick, for every request."""
        if principal == BROKERS:
            return True
        user = self._security.image.users.get(principal.name)
        return user is not None and user.tenant == principal.tenant

    async def delay(self, since_s: float | None = None) -> None:
        """Before whoever failed is told: who guesses waits. `since_s`: when it asked."""
        await self._security.failed_logins.delay(since_s)
