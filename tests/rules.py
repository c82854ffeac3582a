"""Rules for tests: nobody may do anything but what is listed."""

from dataclasses import replace

from goqueue.model.caller import Caller, Principal
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb
from goqueue.model.security.users import USER_KIND
from goqueue.service.security.rule_asking import Rules

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


class ActingAs:
    """What rules say of one user, whoever it is that calls; the user can be another one later."""

    def __init__(self, rules: Rules, user: str) -> None:
        self._rules = rules
        self.principal = Principal(USER_KIND, user)

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        caller = replace(caller, principal=self.principal)
        return self._rules.allows(caller, resource, name, verb)
