"""What rules are asked, whoever has them: those that are stored, or a test's."""

from typing import Protocol

from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb


class Rules(Protocol):
    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        """Whether the caller may do this; asked for every operation, so it must be quick.

        May be asked from threads, too.
        """
        ...
