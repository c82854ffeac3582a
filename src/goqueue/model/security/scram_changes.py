"""Changes of what users log in by, as they are asked for (KIP-554)."""

from typing import NamedTuple


class ScramDeletion(NamedTuple):
    """`mechanism` by its name; empty: one that is not known."""

    name: str
    mechanism: str


class ScramUpsertion(NamedTuple):
    """The password is salted where the user is; the broker never sees it."""

    name: str
    mechanism: str
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion(name={self.name!r}, mechanism={self.mechanism!r})"


ScramChange = ScramDeletion | ScramUpsertion
