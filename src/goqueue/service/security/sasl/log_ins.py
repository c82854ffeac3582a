"""Which mechanisms are offered to whom, and conversations in them."""

import ipaddress
from collections.abc import Callable

from goqueue.broker.node import Node
from goqueue.model.caller import Door
from goqueue.model.security.errors import UnsupportedMechanism
from goqueue.model.security.logins import Login
from goqueue.model.security.users import BROKERS
from goqueue.service.security.authentication import OAUTHBEARER, Authentication
from goqueue.service.security.log_in_notes import Origin
from goqueue.service.security.sasl.conversation import Conversation
from goqueue.service.security.sasl.oauthbearer import OAuthBearerConversation
from goqueue.service.security.sasl.plain import PlainConversation
from goqueue.service.security.sasl.scram import ScramConversation
from goqueue.state.security.image import SecurityImage
from goqueue.state.security.scram import HASHES, SHA_256


class LogIns:
    def __init__(self, node: Node, authentication: Authentication) -> None:
        self._security = node.security
        self._authentication = authentication
        self.clock_ms = node.clock_ms
        self._enabled = node.config.sasl_enabled_mechanisms
        self._has_peers = not node.is_alone
        self._max_session_ms = node.config.connections_max_reauth_ms
        # Grows with every change of users, tokens and rules.
        self.generation = 0
        if self.is_on:
            self.follow(self._changed)
            # One that cannot be used is found at the start, and not by the first client.
            _ = node.security.scram_records

    def _changed(self) -> None:
        self.generation += 1

    @property
    def is_on(self) -> bool:
        return self._security.is_on

    def mechanisms(self, *, is_private: bool) -> tuple[str, ...]:
        """`is_private`: nobody else hears what is said (`is_private` below)."""
        return tuple(
            each
            for each in self._enabled
            if (each != PlainConversation.mechanism or is_private)
            and (each != OAUTHBEARER or self._security.bearer_tokens is not None)
        )

    def begin(self, mechanism: str, *, address: str, is_private: bool) -> Conversation:
        is_offered = mechanism in self.mechanisms(is_private=is_private)
        # Brokers log in to each other by this one, whatever clients use.
        brokers_only = self._has_peers and mechanism == SHA_256 and not is_offered
        if not is_offered and not brokers_only:
            raise UnsupportedMechanism("the SASL mechanism is not one that is enabled")
        if mechanism in HASHES:
            security = self._security
            return ScramConversation(
                mechanism,
                security.scram_records,
                security.guesses,
                address,
                brokers_only=brokers_only,
            )
        if mechanism == OAUTHBEARER:
            return OAuthBearerConversation(self._authentication, address)
        return PlainConversation(self._authentication, address)

    def session_ends_ms(self, login: Login, now_ms: int) -> int | None:
        """When a client must have logged in again (KIP-368); None: never."""
        if login.principal == BROKERS:
            # What they hold open carries calls of many clients.
            return None
        ends_ms = [] if login.expires_ms is None else [login.expires_ms]
        if self._max_session_ms:
            ends_ms.append(now_ms + self._max_session_ms)
        return min(ends_ms, default=None)

    def ends_sooner_ms(self, login: Login, ends_ms: int | None) -> int | None:
        """A delegation token may be made to end before it would have when its holder logged in."""
        token = self._security.image.tokens.get(login.token_id or "")
        if token is None or ends_ms is None:
            return ends_ms
        return min(token.expires_ms, ends_ms)

    def by_certificate(self, name: str) -> Login:
        """By the name that the client's certificate gives it, or `AuthenticationFailed`."""
        return self._authentication.of_certificate(name)

    def holds(self, login: Login) -> bool:
        return self._authentication.holds(login)

    def succeeded(self, login: Login, address: str) -> None:
        origin = Origin(Door.KAFKA, address)
        self._authentication.notes.succeeded(login.principal, login.mechanism, origin)

    def failed(self, mechanism: str, user: str, address: str) -> None:
        """`user`: whom the client says to be, if it said so."""
        self._authentication.notes.failed(mechanism, user, Origin(Door.KAFKA, address))

    async def delay(self, since_s: float) -> None:
        """`since_s`: when the client sent what failed, by the loop's clock."""
        await self._authentication.delay(since_s)

    def follow(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call it whenever users, tokens or rules change; returns what ends that."""

        def changed(_: SecurityImage) -> None:
            listener()

        self._security.listeners.append(changed)
        return lambda: self._security.listeners.remove(changed)


def is_private(address: str, *, is_encrypted: bool) -> bool:
    """Whether a password may be sent as it is: over TLS, or on this machine."""
    if is_encrypted:
        return True
    try:
        host = ipaddress.ip_address(address)
    except ValueError:
        # A socket in the file system.
        return address == "local"
    mapped = getattr(host, "ipv4_mapped", None)
    return (mapped or host).is_loopback
