"""Rule sets to try doors with: nobody may do anything, or everything but one thing."""

from collections.abc import Iterator
from contextlib import contextmanager

from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

Asked = tuple[Resource, Verb]


def alternatives(need: Need) -> set[Asked]:
    """What is enough in the place of it."""
    found: set[Asked] = set()
    if need.or_cluster:
        found.add((Resource.CLUSTER, need.verb))
    if need.or_verb is not None:
        found.add((need.resource, need.or_verb))
    return found


class NobodyMay:
    """Refuses everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: set[Asked] = set()

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        self.asked.add((resource, verb))
        return False


class EverythingBut:
    """Allows what is not the one need under trial; `canary` tells whether it was asked for."""

    def __init__(self) -> None:
        self.denied: set[Asked] = set()
        self.asked: set[Asked] = set()

    @contextmanager
    def nothing_denied(self) -> Iterator[None]:
        denied, self.denied = self.denied, set()
        yield
        self.denied = denied
        self.asked.clear()

    def deny(self, need: Need) -> None:
        self.asked.clear()
        self.denied = {(need.resource, need.verb)}
        self.denied |= alternatives(need)

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        self.asked.add((resource, verb))
        return (resource, verb) not in self.denied
