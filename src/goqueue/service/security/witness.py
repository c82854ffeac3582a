"""Who is told what callers did, and were refused."""

from typing import Protocol

from goqueue.model.audit import Change
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb


class Witness(Protocol):
    """Told of it from threads, too."""

    def refused(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> None: ...

    def changed(self, change: Change) -> None: ...

    def changed_often(self, change: Change) -> None: ...
