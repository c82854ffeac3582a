"""Topics in which brokers keep what they know, and who may look at them."""

from typing import Final

from goqueue.model.caller import Caller, Door
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb
from goqueue.model.topics import AUDIT_TOPIC, is_internal
from goqueue.service.security.rule_asking import Rules

# Asked for with every fetch: Python 3.11 looks a member of an enum up by a call of its own.
_KAFKA: Final = Door.KAFKA
LOOKING: Final = (Verb.READ, Verb.DESCRIBE, Verb.DESCRIBE_CONFIGS)


def is_inner(caller: Caller, resource: Resource, name: str) -> bool:
    """Whether these are records of the broker itself, which only Kafka's tools know how to read.

    They tell of everybody's groups, transactions and messages to come. A browser gets to the HTTP
    port from anywhere.
    """
    return caller.door is not _KAFKA and resource is Resource.TOPIC and is_internal(name)


def allow(rules: Rules, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
    """As the rules say. To see the audit is to see the cluster; nobody writes it but brokers."""
    if name == AUDIT_TOPIC and resource is Resource.TOPIC:
        needed = Verb.DESCRIBE if verb in LOOKING else Verb.ALTER
        return rules.allows(caller, Resource.CLUSTER, CLUSTER_NAME, needed)
    return rules.allows(caller, resource, name, verb)
