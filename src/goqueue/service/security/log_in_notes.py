"""Log-ins, as they succeed and fail: told to the audit, with where they came from.

A door says where with each, or once in the task that then asks `Authentication` (`came_from`).
"""

from contextvars import ContextVar
from typing import Final, NamedTuple

from goqueue.broker.node import Node
from goqueue.model.caller import Door, Principal
from goqueue.model.security.users import UNKNOWN_USER, USER_KIND

# A name that nobody has may be a password in the wrong field: it is not told.
UNKNOWN: Final = Principal(USER_KIND, UNKNOWN_USER)


class Origin(NamedTuple):
    door: Door
    address: str


_ORIGIN: Final[ContextVar[Origin]] = ContextVar("origin")
_NOWHERE: Final = Origin(Door.KAFKA, "")


class LogInNotes:
    def __init__(self, node: Node) -> None:
        self._audit = node.audit
        self._security = node.security

    @staticmethod
    def came_from(door: Door, address: str) -> None:
        """What this task does from here on is asked for from there."""
        _ORIGIN.set(Origin(door, address))

    @property
    def address(self) -> str:
        """Where this task's log-in comes from."""
        return _ORIGIN.get(_NOWHERE).address

    def succeeded(self, principal: Principal, mechanism: str, origin: Origin | None = None) -> None:
        door, address = origin or _ORIGIN.get(_NOWHERE)
        self._audit.logged_in(principal, door, address, mechanism)

    def failed(self, mechanism: str, name: str = "", origin: Origin | None = None) -> None:
        """`name`: of the user whom it says to be, if it says so."""
        door, address = origin or _ORIGIN.get(_NOWHERE)
        user = self._security.image.users.get(name)
        principal = UNKNOWN if user is None else user.principal
        self._audit.log_in_failed(principal, door, address, mechanism)
