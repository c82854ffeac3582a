"""Log-ins: who somebody is, by what it showed, and for how long."""

from dataclasses import dataclass

from goqueue.model.caller import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """`expires_ms`: when what it was made by ends. `token_id`: the delegation token that it was
    made by. `is_stored`: the principal is a user that the broker keeps, and not only one that a
    token of somebody else speaks of; the log-in ends with that user."""

    principal: Principal
    mechanism: str
    expires_ms: int | None = None
    token_id: str | None = None
    is_stored: bool = True
