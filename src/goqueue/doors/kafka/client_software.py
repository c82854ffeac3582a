"""What clients called themselves on their connections (KIP-511), for as long as those are open."""

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from goqueue.model.client_metrics.messages import ClientSoftware

if TYPE_CHECKING:
    from goqueue.doors.kafka.operation import ClientConnection

# Kept for every connection, and shown.
NAME_MAX: Final = 100
UNKNOWN: Final = ClientSoftware()


class SoftwareOfConnections:
    def __init__(self) -> None:
        self._known: WeakKeyDictionary[ClientConnection, ClientSoftware] = WeakKeyDictionary()

    def note(self, connection: "ClientConnection", name: str, version: str) -> None:
        self._known[connection] = ClientSoftware(name[:NAME_MAX], version[:NAME_MAX])

    def of(self, connection: "ClientConnection") -> ClientSoftware:
        return self._known.get(connection, UNKNOWN)
