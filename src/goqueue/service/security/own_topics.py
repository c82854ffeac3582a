"""Topics in which brokers keep what they know, and who may look at them."""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from goqueue.model.caller import Caller, Door
from goqueue.model.companions import kind_and_owner
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb
from goqueue.model.security.tenants import SEPARATOR
from goqueue.model.topics import AUDIT_TOPIC, is_internal
from goqueue.service.security.rule_asking import Rules

# Asked for with every fetch: Python 3.11 looks a member of an enum up by a call of its own.
_KAFKA: Final = Door.KAFKA
_TOPIC: Final = Resource.TOPIC
# With which the names of all of them begin.
_OWN: Final = "__"
LOOKING: Final = (Verb.READ, Verb.DESCRIBE, Verb.DESCRIBE_CONFIGS)


def is_inner(caller: Caller, resource: Resource, name: str) -> bool:
    """Whether these are records of the broker itself, which only Kafka's tools know how to read.

    They tell of everybody's groups, transactions and messages to come. A browser gets to the HTTP
    port from anywhere.
    """
    return caller.door is not _KAFKA and resource is _TOPIC and is_internal(name)


class OwnTopics:
    """What rules say, also of these topics; `topic_of` knows the names of topics by their ids."""

    def __init__(self, rules: Rules, topic_of: Callable[[UUID], str | None]) -> None:
        self._rules = rules
        self._topic_of = topic_of

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        """To see the audit is to see the cluster; nobody writes it but brokers."""
        if resource is not _TOPIC or not name.startswith(_OWN):
            return self._rules.allows(caller, resource, name, verb)
        if name == AUDIT_TOPIC:
            needed = Verb.DESCRIBE if verb in LOOKING else Verb.ALTER
            return self._rules.allows(caller, Resource.CLUSTER, CLUSTER_NAME, needed)
        if not self._rules.allows(caller, resource, name, verb):
            return False
        companion = kind_and_owner(name) if verb is Verb.READ else None
        return companion is None or self._reads_owner(caller, self._topic_of(companion[1]))

    def _reads_owner(self, caller: Caller, owner: str | None) -> bool:
        """What waits for a topic has the topic's messages in it: a rule for all topics does not
        give those of a tenant, or of a topic that is denied. Who may act as a broker copies all."""
        may_copy = Resource.CLUSTER, CLUSTER_NAME, Verb.CLUSTER_ACTION
        if owner is None or SEPARATOR in owner:
            return self._rules.allows(caller, *may_copy)
        reads = self._rules.allows(caller, _TOPIC, owner, Verb.READ)
        return reads or self._rules.allows(caller, *may_copy)
