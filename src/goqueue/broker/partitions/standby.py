"""What keeps up with a copy of a partition that another node leads, to go on with it one day."""

from typing import Protocol


class Standby(Protocol):
    """Told by its copy, on the event loop. It reads what is committed, and changes nothing."""

    @property
    def lag(self) -> int:
        """How many committed records it has not replayed yet."""
        ...

    def advanced(self) -> None:
        """More is committed."""
        ...

    def cut(self, offset: int) -> None:
        """The log is about to be cut there, or to begin anew there."""
        ...

    def end(self) -> None:
        """The copy is closed: let go of everything."""
        ...
