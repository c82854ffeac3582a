"""Messages that come and go by other doors than Kafka's, which counts its own requests."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from goqueue.model.caller import Caller
from goqueue.model.records import Header
from goqueue.model.security.quotas import QuotaKind

if TYPE_CHECKING:
    from goqueue.broker.node import Node


class Measured(Protocol):
    """A record, stored or on its way."""

    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[Header, ...]: ...


class Metering:
    """Who is beyond its quota is refused (`QuotaExceeded`) until it is within again; what it asks
    for before that is done, however large it is."""

    def __init__(self, node: "Node") -> None:
        self._quotas = node.quotas
        self._limits = node.quotas.limits

    def publishing(self, caller: Caller, records: Iterable[Measured]) -> None:
        """Before they are stored."""
        if caller.principal.tenant:
            self._limits.check_storage(caller)
        if self._quotas.is_measured(caller):
            self._quotas.admit(caller, QuotaKind.PRODUCED)
            self._quotas.charge(caller, QuotaKind.PRODUCED, size_of(records))

    def reading(self, caller: Caller) -> None:
        if self._quotas.is_measured(caller):
            self._quotas.admit(caller, QuotaKind.FETCHED)

    def have_read(self, caller: Caller, records: Iterable[Measured]) -> None:
        if self._quotas.is_measured(caller):
            self._quotas.charge(caller, QuotaKind.FETCHED, size_of(records))

    def receiving(self, caller: Caller) -> None:
        """Before messages of a queue are handed out."""
        self.reading(caller)
        if caller.principal.tenant:
            self._limits.check_in_flight(caller)

    def have_received(self, caller: Caller, records: Sequence[Measured]) -> None:
        self.have_read(caller, records)
        if caller.principal.tenant:
            self._limits.handed_out(caller, len(records))


def size_of(records: Iterable[Measured]) -> int:
    size = 0
    for record in records:
        size += len(record.value or b"") + len(getattr(record, "key", None) or b"")
        for name, value in record.headers:
            size += len(name) + len(value or b"")
    return size
