"""Requests that end before they are done: their client has gone, or the door closes.

Those that only ask end with their client: lists of thousands would be made for nobody. Those that
change something go on; what they began is done in any case. A closing door waits for none for long.
"""

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

_KEY: Final = "goqueue.asked"


class Asked:
    """One request that is being answered. `has_begun`: its client has got the first of the answer.

    `changes`: it may do more than ask.
    """

    __slots__ = ("_changes", "_task", "has_begun", "is_abandoned")

    def __init__(self, task: "asyncio.Task[Any] | None", *, changes: bool) -> None:
        self._task = task
        self._changes = changes
        self.has_begun = False
        self.is_abandoned = False

    @classmethod
    def note(cls, scope: MutableMapping[str, Any], *, changes: bool) -> "Asked":
        """The running task answers it."""
        asked = scope[_KEY] = cls(asyncio.current_task(), changes=changes)
        return asked

    @classmethod
    def abandon(cls, scope: Mapping[str, Any]) -> None:
        """Its client has gone."""
        asked = scope.get(_KEY)
        if isinstance(asked, Asked) and asked._task is not None and not asked._changes:
            asked.is_abandoned = True
            asked._task.cancel()
            asked.end()

    @classmethod
    def send_away(cls, scope: Mapping[str, Any]) -> None:
        """The door closes, and the answer has not begun: the client is told so instead."""
        asked = scope.get(_KEY)
        if isinstance(asked, Asked) and asked._task is not None and not asked.has_begun:
            asked._task.cancel()
            asked.end()

    def end(self) -> None:
        """It is answered, or never will be."""
        self._task = None
