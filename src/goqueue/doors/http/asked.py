"""Requests that only ask end with their client: lists of thousands would be made for nobody.

Those that change something go on; what they began is done in any case.
"""

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

_KEY: Final = "goqueue.asked"


class Asked:
    """One request that is being answered."""

    __slots__ = ("_task", "is_abandoned")

    def __init__(self, task: "asyncio.Task[Any] | None") -> None:
        self._task = task
        self.is_abandoned = False

    @classmethod
    def note(cls, scope: MutableMapping[str, Any]) -> "Asked":
        """The running task answers it."""
        asked = scope[_KEY] = cls(asyncio.current_task())
        return asked

    @classmethod
    def abandon(cls, scope: Mapping[str, Any]) -> None:
        """Its client has gone. Does nothing for requests that were not noted."""
        asked = scope.get(_KEY)
        if isinstance(asked, Asked) and asked._task is not None:
            asked.is_abandoned = True
            asked._task.cancel()
            asked.end()

    def end(self) -> None:
        """It is answered, or never will be."""
        self._task = None
