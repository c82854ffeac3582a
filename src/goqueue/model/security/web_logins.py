"""Log-ins at the HTTP port: who asks, and for how long what it showed is good."""

from collections.abc import Callable
from typing import NamedTuple

from goqueue.model.caller import Principal


class WebLogin(NamedTuple):
    """`is_current` is asked again while a request waits: whether it would still be let in."""

    principal: Principal
    is_current: Callable[[], bool]
