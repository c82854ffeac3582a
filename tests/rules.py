"""Rules for tests: nobody may do anything but what is listed."""

from goqueue.model.caller import Caller
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb

Grant = tuple[Resource, str, Verb]


class Granted:
    """The same for every caller."""

    def __init__(self, *grants: Grant) -> None:
        self.grants = set(grants)

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        return (resource, name, verb) in self.grants


def topic(name: str, verb: Verb) -> Grant:
    return (Resource.TOPIC, name, verb)


def subject(name: str, verb: Verb) -> Grant:
    return (Resource.SUBJECT, name, verb)


def cluster(verb: Verb) -> Grant:
    return (Resource.CLUSTER, CLUSTER_NAME, verb)


def group(name: str, verb: Verb) -> Grant:
    return (Resource.GROUP, name, verb)


def transactional_id(name: str, verb: Verb) -> Grant:
    return (Resource.TRANSACTIONAL_ID, name, verb)
