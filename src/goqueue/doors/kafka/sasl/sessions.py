"""The sessions of all open connections, and how they end when users or tokens are gone."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from goqueue.doors.kafka.sasl.session import Line, SaslSession
from goqueue.model.measuring.traffic import KafkaTraffic
from goqueue.service.security.sasl.log_ins import LogIns

if TYPE_CHECKING:
    from goqueue.doors.kafka.operation import ClientConnection

# Changes within it are looked at together. A user that is gone is refused within a second.
LOOK_AGAIN_S: Final = 0.1


class SaslSessions:
    def __init__(self, log_ins: LogIns, traffic: KafkaTraffic) -> None:
        self._log_ins = log_ins
        self._traffic = traffic
        self._open: WeakKeyDictionary[ClientConnection, SaslSession] = WeakKeyDictionary()
        self._unfollow: Callable[[], None] | None = None
        self._look: asyncio.TimerHandle | None = None

    @property
    def are_on(self) -> bool:
        return self._log_ins.is_on

    def begin(self, connection: "ClientConnection", line: Line, *, is_private: bool) -> SaslSession:
        session = SaslSession(self._log_ins, self._traffic, line, is_private=is_private)
        self._open[connection] = session
        return session

    def of(self, connection: "ClientConnection") -> SaslSession | None:
        """None while security is off."""
        return self._open.get(connection)

    def start(self) -> None:
        if self.are_on:
            self._unfollow = self._log_ins.follow(self._changed)

    def stop(self) -> None:
        if self._unfollow is not None:
            self._unfollow()
            self._unfollow = None
        if self._look is not None:
            self._look.cancel()

    def _changed(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._end_gone)

    def _end_gone(self) -> None:
        self._look = None
        for session in tuple(self._open.values()):
            session.end_if_gone()
