"""How many partitions there may be, and how fast topics are made by being asked for.

A partition costs memory and files on disk for as long as it is there. Whoever may ask for a topic
can make one by asking, so that a typing error in a loop, or a scan of names, fills a broker.
"""

from collections.abc import Callable
from typing import Final

from goqueue.model.errors import PolicyViolation, UnknownTopic

_MINUTE_SECONDS: Final = 60


def check_room(existing: int, added: int, most: int) -> None:
    """Refuse partitions for which this broker has no room."""
    if existing + added > most:
        raise PolicyViolation(
            f"{added} partitions more than the {existing} there are would be over "
            f"max.partitions.per.broker ({most})"
        )


class CreationPace:
    """So many topics at once, and then as many again within a minute."""

    def __init__(self, per_minute: int, clock_seconds: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._clock_seconds = clock_seconds
        self._left = float(per_minute)
        self._seen_seconds = clock_seconds()

    def take(self, topic: str) -> None:
        """Raises what clients repeat after a while."""
        now = self._clock_seconds()
        gained = (now - self._seen_seconds) * self._per_minute / _MINUTE_SECONDS
        self._left = min(self._left + gained, float(self._per_minute))
        self._seen_seconds = now
        if self._left < 1:
            raise UnknownTopic(
                f"there is no topic {topic!r}, and too many were made by being asked for: "
                f"auto.create.topics.max.per.minute is {self._per_minute}"
            )
        self._left -= 1
