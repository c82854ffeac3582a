"""Answers that clients do not read, of all connections together."""

from typing import Final, Protocol

# A page of messages is up to 4 MB, and 4,096 connections may each have one that is not read: that
# would be 16 GB until they are hung up on for their silence.
UNSENT_MAX_BYTES: Final = 128 * 1024 * 1024


class Sending(Protocol):
    @property
    def unsent_bytes(self) -> int: ...
    def hang_up(self) -> None: ...


class UnsentAnswers:
    """Connections with more to send than their clients take. When that is too much in all, those
    that have waited for longest are hung up on.
    """

    def __init__(self) -> None:
        # Those that have waited for longest first, with their unsent bytes at the last look.
        self._held: dict[Sending, int] = {}
        self._total_bytes = 0

    def add(self, sending: Sending) -> None:
        self.discard(sending)
        self._held[sending] = unsent_bytes = sending.unsent_bytes
        self._total_bytes += unsent_bytes
        if self._total_bytes > UNSENT_MAX_BYTES:
            self._relieve()

    def discard(self, sending: Sending) -> None:
        self._total_bytes -= self._held.pop(sending, 0)

    def _relieve(self) -> None:
        self._held = {sending: sending.unsent_bytes for sending in self._held}
        self._total_bytes = sum(self._held.values())
        for sending in list(self._held)[:-1]:
            if self._total_bytes <= UNSENT_MAX_BYTES:
                break
            self.discard(sending)
            sending.hang_up()
