"""When a worker that died is started again, and when it is given up."""

from typing import Final

# One that served for this long is well: whatever ended it came from outside, or is rare.
WELL_S: Final = 10.0
# Deaths in a row, each before that: it will not get better by itself. With the waits between them,
# half a minute.
DEATHS_MAX: Final = 10
# The first time at once, for clients wait; then longer and longer.
FIRST_WAIT_S: Final = 0.1
WAIT_MAX_S: Final = 5.0


class Restarts:
    """Of one worker."""

    def __init__(self) -> None:
        self.deaths = 0

    def after_death(self, served_s: float) -> float | None:
        """How long to wait before the next start; None where it is given up."""
        if served_s >= WELL_S:
            self.deaths = 0
        self.deaths += 1
        if self.deaths >= DEATHS_MAX:
            return None
        if self.deaths == 1:
            return 0.0
        return float(min(FIRST_WAIT_S * 2 ** (self.deaths - 2), WAIT_MAX_S))
