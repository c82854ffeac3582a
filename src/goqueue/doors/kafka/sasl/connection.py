"""A connection on which clients must log in."""

import asyncio
import struct
from dataclasses import replace
from typing import Final

from goqueue.doors.kafka.connection import Connection
from goqueue.doors.kafka.sasl.limits import LogInLimits
from goqueue.doors.kafka.sasl.session import SASL, SaslSession
from goqueue.doors.kafka.sasl.token_frames import TokenExchange
from goqueue.doors.kafka.wire.reading import Malformed
from goqueue.model.caller import Principal
from goqueue.model.fairness.parties import party_of
from goqueue.model.security.users import BROKERS
from goqueue.service.security.sasl.log_ins import is_private

_API_KEY: Final = struct.Struct(">h")


class SecuredConnection(Connection):
    _session: SaslSession
    _log_in_limits: LogInLimits
    _until_logged_in: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        config = self._services.config
        self._log_in_limits = LogInLimits(config)
        self._frames.hold_to(self._log_in_limits)
        self._until_logged_in = self._loop.call_later(
            config.sasl_login_timeout_ms / 1000,
            self.cut_off,
            f"nobody logged in for {config.sasl_login_timeout_ms} ms (sasl.login.timeout.ms)",
        )
        is_encrypted = transport.get_extra_info("sslcontext") is not None
        self._session = self._services.sasl.begin(
            self, self, is_private=is_private(self.client_host, is_encrypted=is_encrypted)
        )

        client_name = transport.get_extra_info("client_name")
        if client_name is not None:
            self._session.begin_by_certificate(client_name)

    def connection_lost(self, exc: Exception | None) -> None:
        self._until_logged_in.cancel()
        self._session.left()
        super().connection_lost(exc)

    def _accept(self, frame: memoryview) -> None:
        session = self._session
        (api_key,) = _API_KEY.unpack_from(frame)
        is_log_in = session.awaits_frame or api_key in SASL
        refusal = self._too_large(frame) if is_log_in else session.refusal(api_key)
        if refusal is not None:
            self._memory.give_back(len(frame))
            raise Malformed(refusal)
        if session.awaits_frame:
            self._queue(TokenExchange(frame))
        else:
            super()._accept(frame)

    def _too_large(self, frame: memoryview) -> str | None:
        """A log-in again is held to what the first one was: it is looked at in one go."""
        limits = self._log_in_limits
        if len(frame) <= limits.largest_bytes:
            return None
        return f"log-in of {len(frame)} bytes; {limits.largest_setting} is {limits.largest_bytes}"

    # --- as the session knows it ----------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        logs_in = any(each.header.api_key in SASL for each in self._unanswered)
        return not logs_in and any(each.operation.waits for each in self._running)

    def logged_in(self, principal: Principal) -> None:
        self._until_logged_in.cancel()
        self._caller = replace(self._caller, principal=principal)
        if principal == BROKERS:
            self._connections.spare(self)
        else:
            self._connections.known(self, party_of(principal))
        self._frames.hold_to(self._limits)

    def end_after_answers(self, reason: str) -> None:
        self._fail(reason)
