"""Types that contain themselves: a column repeats them up to a depth, for columns have an end."""

from collections.abc import Sequence
from typing import Final

from goqueue.spark.option_names import InvalidOption

DEPTH_OPTION: Final = "recursiveFieldMaxDepth"
# Enough for comments on comments. A type that contains itself in two places has twice as many
# fields at each further depth.
DEPTH_DEFAULT: Final = 5
DEPTH_MAX: Final = 15
# Spark plans for minutes with more.
_MAX_FIELDS: Final = 10_000


class Nesting:
    def __init__(self, max_depth: int) -> None:
        self.max_depth = max_depth
        self._fields = 0

    def allows(self, name: str, path: Sequence[str]) -> bool:
        """Whether a type may stand at the end of this path of types."""
        return path.count(name) < self.max_depth

    def count_field(self) -> None:
        self._fields += 1
        if self._fields > _MAX_FIELDS:
            raise InvalidOption(
                f"the schema has more than {_MAX_FIELDS} fields where types contain themselves up "
                f"to {self.max_depth} times; lower {DEPTH_OPTION}"
            )


def too_deep(name: str, max_depth: int) -> ValueError:
    return ValueError(
        f"{name} goes deeper than {DEPTH_OPTION}={max_depth}; raise it, up to {DEPTH_MAX}"
    )


def nothing_left(what: str) -> InvalidOption:
    return InvalidOption(f"{what} has no fields but such that contain itself; read it as binary")
