"""Who logged in on a connection, and what may be asked on it.

    state        a client may send                        then
    NEW          ApiVersions, SaslHandshake               CHOSEN; ENDED if it is not offered
    CHOSEN       SaslAuthenticate, or tokens as frames    CHOSEN, LOGGED_IN, or ENDED
    LOGGED_IN    everything; SaslHandshake (KIP-368)      CHOSEN, and still logged in

What is not in the table ends the connection. A client with a certificate of its own is logged in
from the start, and may log in as somebody else. After version 0 of the handshake, tokens come as
frames of their own, without a header (before KIP-152). A log-in again must be by the same mechanism
and of the same principal. One that failed ends the connection, also where somebody had logged in
before.
"""

import asyncio
from typing import Final, NamedTuple, Protocol
from weakref import ref

from goqueue.model.caller import Principal
from goqueue.model.calls import CALL_API_KEY
from goqueue.model.measuring.traffic import KafkaTraffic
from goqueue.model.security.errors import AuthenticationFailed, TooManyLogIns, UnsupportedMechanism
from goqueue.model.security.logins import CERTIFICATE, Login
from goqueue.model.security.users import BROKERS
from goqueue.service.security.sasl.conversation import Conversation
from goqueue.service.security.sasl.log_ins import LogIns

HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
AUTHENTICATE: Final = 36
SASL: Final = frozenset((HANDSHAKE, AUTHENTICATE))
# Version 1 says that tokens come in SaslAuthenticate (KIP-152).
_FIRST_VERSION_WITH_REQUESTS: Final = 1
# A lifetime of 0 would mean that there is none.
_LIFETIME_MIN_MS: Final = 1
# Timers follow another clock than log-ins, which may be set.
WATCH_MAX_MS: Final = 60_000
# After the end: a client that logs in again just then is not cut off.
WATCH_LATER_S: Final = 0.2
# The label of what was not offered: what clients wrote is not kept.
_UNSUPPORTED: Final = "unsupported"


class Line(Protocol):
    """The connection, as its session knows it."""

    @property
    def client_host(self) -> str: ...
    @property
    def is_waiting(self) -> bool:
        """For what may come later; and it does not log in again."""
        ...

    def logged_in(self, principal: Principal) -> None: ...
    def end_after_answers(self, reason: str) -> None: ...
    def cut_off(self, reason: str) -> None: ...


class OutOfTurn(Exception):
    """The request does not belong here; the connection ends."""


class Heard(NamedTuple):
    """`lifetime_ms`: the client must log in again within it; 0: it need not."""

    reply: bytes
    lifetime_ms: int = 0


class SaslSession:
    __slots__ = (
        "__weakref__",
        "_conversation",
        "_ends_ms",
        "_has_failed",
        "_held_in",
        "_hint",
        "_is_ended",
        "_is_private",
        "_line",
        "_log_ins",
        "_timer",
        "_traffic",
        "awaits_frame",
        "login",
    )

    def __init__(
        self, log_ins: LogIns, traffic: KafkaTraffic, line: Line, *, is_private: bool
    ) -> None:
        self._log_ins = log_ins
        self._traffic = traffic
        # Which holds the session: it is gone when the connection is.
        self._line = ref(line)
        self._is_private = is_private
        self._conversation: Conversation | None = None
        self._ends_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        # The generation of users and tokens in which the log-in was last seen to hold.
        self._held_in = -1
        self._is_ended = False
        self._has_failed = False
        # Why the name in the client's certificate is not taken.
        self._hint = ""
        self.login: Login | None = None
        # The next frame is a token and no request.
        self.awaits_frame = False

    def refusal(self, api_key: int) -> str | None:
        """Why a request, which does not log in, is not answered; asked for every one of them, so
        it must be quick."""
        login = self.login
        if login is None:
            if api_key == API_VERSIONS:
                return None
            hint = f"; its certificate is not enough: {self._hint}" if self._hint else ""
            return f"API key {api_key} before log-in: clients must log in (SASL){hint}"
        if api_key == CALL_API_KEY and login.principal != BROKERS:
            return f"a call of a broker by {login.principal}"
        # Looked at once for every change, as every request comes by here.
        generation = self._log_ins.generation
        if generation != self._held_in:
            if not self._log_ins.holds(login):
                return _gone(login)
            self._ends_ms = self._log_ins.ends_sooner_ms(login, self._ends_ms)
            self._held_in = generation
        if self._ends_ms is not None and self._log_ins.clock_ms() >= self._ends_ms:
            return _over(login)
        return None

    def end_if_gone(self) -> None:
        """After users or tokens changed."""
        if self.login is not None and not self._log_ins.holds(self.login):
            self._is_ended = True
            if (line := self._line()) is not None:
                line.cut_off(_gone(self.login))
        elif self.login is not None and self._ends_ms is not None:
            self._ends_ms = self._log_ins.ends_sooner_ms(self.login, self._ends_ms)
            self._watch()

    # --- while a request waits ------------------------------------------------------------

    def _watch(self) -> None:
        """Who waits for messages when its log-in ends is given none. The others are refused at
        their next request, as in Kafka: until then they may log in again."""
        self.left()
        if self._ends_ms is None:
            return
        wait_ms = min(max(self._ends_ms - self._log_ins.clock_ms(), 0), WATCH_MAX_MS)
        loop, session = asyncio.get_running_loop(), ref(self)
        self._timer = loop.call_later(wait_ms / 1000 + WATCH_LATER_S, _look, session)

    def left(self) -> None:
        """The client has, and nobody waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end_if_over(self) -> None:
        """Where somebody waits."""
        line, login = self._line(), self.login
        if line is None or login is None or self._ends_ms is None:
            return
        if self._log_ins.clock_ms() < self._ends_ms:
            self._watch()
        elif line.is_waiting:
            line.cut_off(_over(login))

    def begin_by_certificate(self, name: str) -> None:
        """That the client's own tells, before it says anything. It may still log in as somebody
        else, and must where the name is not taken."""
        line = self._line()
        assert line is not None
        try:
            self.login = self._log_ins.by_certificate(name)
        except AuthenticationFailed as error:
            self._hint = error.message
            self._log_ins.failed(CERTIFICATE, name, line.client_host)
            return
        self._log_ins.succeeded(self.login, line.client_host)
        line.logged_in(self.login.principal)

    @property
    def _sasl_login(self) -> Login | None:
        login = self.login
        return None if login is None or login.mechanism == CERTIFICATE else login

    # --- SaslHandshake --------------------------------------------------------------------

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._log_ins.mechanisms(is_private=self._is_private)

    def choose(self, mechanism: str, version: int) -> None:
        """`UnsupportedMechanism` and `OutOfTurn` end the connection after the answer."""
        if self._is_ended or self._conversation is not None:
            raise self._out_of_turn("SaslHandshake amid a log-in")
        try:
            before = self._sasl_login
            if before is not None and before.mechanism != mechanism:
                raise UnsupportedMechanism("a log-in again must be by the mechanism of the first")
            line = self._line()
            self._conversation = self._log_ins.begin(
                mechanism,
                address="" if line is None else line.client_host,
                is_private=self._is_private,
            )
        except UnsupportedMechanism as error:
            self._failed(_UNSUPPORTED, error.message)
            raise
        self.awaits_frame = version < _FIRST_VERSION_WITH_REQUESTS

    # --- SaslAuthenticate -----------------------------------------------------------------

    async def hear(self, message: bytes) -> Heard:
        """`AuthenticationFailed` and `OutOfTurn` end the connection after the answer, and
        `TooManyLogIns` without one: clients take any answer for the last word, and come again
        where there is none."""
        conversation = self._conversation
        if self._is_ended or conversation is None:
            raise self._out_of_turn("SaslAuthenticate without SaslHandshake")
        since_s = asyncio.get_running_loop().time()
        try:
            said = await conversation.hear(message)
            if said.is_refusal:
                # The client need not say that it heard.
                self._note_failure(conversation.mechanism)
                await self._log_ins.delay(since_s)
            if said.login is None:
                return Heard(said.reply)
            lifetime_ms = self._admit(said.login)
        except TooManyLogIns:
            self._is_ended = True
            await self._log_ins.delay(since_s)
            raise
        except AuthenticationFailed as error:
            # Before the delay: nothing is heard meanwhile.
            self._is_ended = True
            await self._log_ins.delay(since_s)
            mechanism = conversation.mechanism
            self._failed(mechanism, error.message)
            raise AuthenticationFailed(
                f"authentication failed: invalid credentials with SASL mechanism {mechanism}"
            ) from None
        return Heard(said.reply, lifetime_ms)

    def _admit(self, login: Login) -> int:
        before = self._sasl_login
        if before is not None and before.principal != login.principal:
            raise AuthenticationFailed("a log-in again must be of the same principal")
        if not self._log_ins.holds(login):
            raise AuthenticationFailed(_gone(login))
        now_ms = self._log_ins.clock_ms()
        self._ends_ms = self._log_ins.session_ends_ms(login, now_ms)
        self.login = login
        self._held_in = -1
        self._watch()
        self._conversation = None
        self.awaits_frame = False
        self._traffic.authentications[login.mechanism, "success"] += 1
        if (line := self._line()) is not None:
            self._log_ins.succeeded(login, line.client_host)
            line.logged_in(login.principal)
        return 0 if self._ends_ms is None else max(_LIFETIME_MIN_MS, self._ends_ms - now_ms)

    def _out_of_turn(self, what: str) -> OutOfTurn:
        self._end(what)
        return OutOfTurn(what)

    def _failed(self, mechanism: str, reason: str) -> None:
        self._note_failure(mechanism)
        self._end(f"log-in failed: {reason}")

    def _note_failure(self, mechanism: str) -> None:
        """Once, as nothing comes after it."""
        if self._has_failed:
            return
        self._has_failed = True
        self._traffic.authentications[mechanism, "failure"] += 1
        user = "" if self._conversation is None else self._conversation.user
        if (line := self._line()) is not None:
            self._log_ins.failed(mechanism, user, line.client_host)

    def _end(self, reason: str) -> None:
        self._is_ended = True
        if (line := self._line()) is not None:
            line.end_after_answers(reason)


def _look(session: "ref[SaslSession]") -> None:
    found = session()
    if found is not None:
        found.end_if_over()


def _over(login: Login) -> str:
    return f"the log-in of {login.principal} has ended, and it did not log in again"


def _gone(login: Login) -> str:
    return f"{login.principal}, who logged in here, or its token is gone"
