"""Log-ins: who somebody is, by what it showed, and for how long."""

from dataclasses import dataclass
from typing import Final

from goqueue.model.caller import Principal

# In place of a SASL mechanism: the client showed it while TLS was agreed on.
CERTIFICATE: Final = "CERTIFICATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """`expires_ms`: when what it was made by ends. `token_id`: the delegation token that it was
    made by. `user_created_ms`: of the user that the broker keeps, with whom the log-in ends, also
    where another one of the same name is made at once; None for brokers, and for names of which
    only a certificate or somebody else's token speaks. `is_outside`: one of these told the name,
    and it ends when the name means somebody else."""

    principal: Principal
    mechanism: str
    expires_ms: int | None = None
    token_id: str | None = None
    user_created_ms: int | None = None
    is_outside: bool = False
