"""Who somebody is that comes over HTTP: by password, key, session or token."""

import base64
import binascii
from collections.abc import Callable
from typing import Final

from goqueue.broker.node import Node
from goqueue.model.caller import Door
from goqueue.model.security.errors import AuthenticationFailed
from goqueue.model.security.keys import TOKEN_PREFIX, KeyKind
from goqueue.model.security.users import User
from goqueue.model.security.web_logins import WebLogin
from goqueue.service.security.authentication import Authentication

# Longer than any header that is let in could hold; a password is hashed once more for each.
_CREDENTIALS_MAX_BYTES: Final = 8 * 1024
_SIGNATURE: Final = "signature"


class BegunSession:
    """`word` is for the cookie."""

    __slots__ = ("expires_ms", "user", "word")

    def __init__(self, user: User, word: str, expires_ms: int) -> None:
        self.user = user
        self.word = word
        self.expires_ms = expires_ms


class WebLogins:
    """What fails is `AuthenticationFailed` after a while; the audit is told, and counts it."""

    def __init__(self, node: Node, authentication: Authentication) -> None:
        self._security = node.security
        self._authentication = authentication
        self._notes = authentication.notes
        self.clock_ms = node.clock_ms
        self._skew_ms = node.config.oauth_clock_skew_ms

    @property
    def is_on(self) -> bool:
        return self._security.is_on

    def on_change(self, look_again: Callable[[], None]) -> None:
        """Called whenever a log-in may have ended."""
        self._security.listeners.append(lambda _: look_again())

    def came_from(self, door: Door, address: str) -> None:
        """Where this task's log-in comes from."""
        self._notes.came_from(door, address)

    # --- headers --------------------------------------------------------------------------

    async def by_authorization(self, header: bytes) -> WebLogin:
        """By what the header of this name has (RFC 7617, RFC 6750)."""
        scheme, _, rest = header.decode("latin-1").partition(" ")
        shown = rest.strip()
        if len(shown) <= _CREDENTIALS_MAX_BYTES:
            if scheme.lower() == "basic":
                return await self.by_password(*await self._basic(shown))
            if scheme.lower() == "bearer":
                is_key = shown.startswith(TOKEN_PREFIX)
                return await (self._by_key if is_key else self._by_jwt)(shown)
        raise await self._refused("other")

    async def _basic(self, shown: str) -> tuple[str, str]:
        """Name and password."""
        try:
            text = base64.b64decode(shown, validate=True).decode()
        except (binascii.Error, ValueError):
            raise await self._refused("password") from None
        name, _, password = text.partition(":")
        return name, password

    async def by_password(self, name: str, password: str) -> WebLogin:
        principal = await self._authentication.by_password(name, password)
        return WebLogin(principal, lambda: self._authentication.is_current(principal))

    async def _by_key(self, token: str) -> WebLogin:
        keys = self._security.keys
        key_id = keys.api_key_in(token)
        user = None if key_id is None else keys.holder(key_id, KeyKind.API)
        if key_id is None or user is None:
            raise await self._refused("key")
        self._notes.succeeded(user.principal, "key")
        return self._login_by_key(user, key_id, KeyKind.API)

    async def _by_jwt(self, token: str) -> WebLogin:
        """By a token of the identity provider."""
        login = await self._authentication.by_jwt(token)
        assert login.expires_ms is not None
        # It was let in by a clock that may be so far behind.
        ends_ms = login.expires_ms + self._skew_ms

        def is_current() -> bool:
            return self.clock_ms() < ends_ms and self._authentication.holds(login)

        return WebLogin(login.principal, is_current, ends_ms)

    def _login_by_key(self, user: User, key_id: str, kind: KeyKind) -> WebLogin:
        keys = self._security.keys
        return WebLogin(
            user.principal,
            lambda: keys.holder(key_id, kind) is not None,
            keys.expires_ms(key_id),
        )

    async def by_certificate(self, name: str) -> WebLogin:
        """By the name that the client's certificate gives it."""
        try:
            login = self._authentication.of_certificate(name)
        except AuthenticationFailed:
            raise await self._refused("certificate") from None
        self._notes.succeeded(login.principal, "certificate")
        return WebLogin(login.principal, lambda: self._authentication.holds(login))

    # --- sessions of browsers -------------------------------------------------------------

    async def begin_session(self, name: str, password: str) -> BegunSession:
        await self.by_password(name, password)
        user = self._security.image.users.get(name)
        if user is None:
            raise await self._refused("password")
        return BegunSession(user, *self._security.sessions.begin(user))

    async def begin_session_by(self, header: bytes) -> BegunSession:
        """By a header for Basic; what else there is needs no session."""
        scheme, _, rest = header.decode("latin-1").partition(" ")
        if scheme.lower() != "basic":
            raise await self._refused("other")
        return await self.begin_session(*await self._basic(rest.strip()))

    async def by_session(self, word: str) -> WebLogin:
        """One that has ended is no guess, and counts all the same: nobody can tell."""
        sessions = self._security.sessions
        user = sessions.user_in(word)
        if user is None:
            raise await self._refused("session")
        self._notes.succeeded(user.principal, "session")
        return WebLogin(
            user.principal,
            lambda: sessions.user_in(word) is not None,
            sessions.expires_ms(word),
        )

    def session_expires_ms(self, word: str) -> int:
        return self._security.sessions.expires_ms(word)

    async def end_session(self, word: str) -> None:
        await self._security.sessions.end(word)

    # --- signatures of SQS ----------------------------------------------------------------

    def sqs_secret(self, key_id: str) -> str | None:
        """What the key's holder signs with; None where there is no such key now."""
        return self._security.keys.sqs_secret(key_id)

    def by_sqs_key(self, key_id: str) -> WebLogin | None:
        """For a signature that fits."""
        user = self._security.keys.holder(key_id, KeyKind.SQS)
        return None if user is None else self._login_by_key(user, key_id, KeyKind.SQS)

    async def sqs_refused(self) -> None:
        """Return when a request whose signature does not fit may be answered."""
        self._notes.failed(_SIGNATURE)
        await self._authentication.delay()

    def sqs_let_in(self, login: WebLogin) -> None:
        """Its signature fits."""
        self._notes.succeeded(login.principal, _SIGNATURE)

    # --- those who are not let in ---------------------------------------------------------

    def nothing_shown(self) -> AuthenticationFailed:
        """At once, and no failure: many clients ask without first, to learn what is wanted."""
        return AuthenticationFailed("log in: this broker answers nobody it does not know")

    async def _refused(self, by: str) -> AuthenticationFailed:
        self._notes.failed(by)
        await self._authentication.delay()
        return AuthenticationFailed("authentication failed: what was shown is wrong, or has ended")
