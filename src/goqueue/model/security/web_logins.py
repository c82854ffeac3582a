"""Log-ins at the HTTP port: who asks, and for how long what it showed is good."""

from collections.abc import Callable
from typing import NamedTuple

from goqueue.model.caller import Principal


class WebLogin(NamedTuple):
    """`is_current` is asked again while a request waits: whether it would still be let in.
    `ends_ms`: when it ends by itself, if it does."""

    principal: Principal
    is_current: Callable[[], bool]
    ends_ms: int | None = None
