"""Rule sets to try doors with: nobody may do anything, or everything but one thing."""

from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

Asked = tuple[Resource, Verb]


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

    def deny(self, need: Need) -> None:
        self.asked.clear()
        self.denied = {(need.resource, need.verb)}
        if need.or_cluster:
            self.denied.add((Resource.CLUSTER, need.verb))

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        self.asked.add((resource, verb))
        return (resource, verb) not in self.denied
