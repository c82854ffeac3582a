"""A log-in under way, as doors know it."""

from typing import NamedTuple, Protocol

from goqueue.model.security.logins import Login


class Said(NamedTuple):
    """What the client is told; with the log-in, the conversation is over. `is_refusal`: the log-in
    failed, and whatever the client says to that ends the conversation."""

    reply: bytes
    login: Login | None = None
    is_refusal: bool = False


class Conversation(Protocol):
    @property
    def mechanism(self) -> str: ...

    @property
    def user(self) -> str:
        """Whom the client says to be; empty while it has not said so."""
        ...

    async def hear(self, message: bytes) -> Said:
        """`AuthenticationFailed` ends it."""
        ...
