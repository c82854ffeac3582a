"""Whether a caller may do something to a thing: whose tenant's it is, and what rules say."""

from collections.abc import Callable, Container
from typing import Final
from uuid import UUID

from goqueue.model.caller import Caller, Door
from goqueue.model.errors import TopicAccessDenied
from goqueue.model.names import check_no_separator
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb
from goqueue.model.security.tenants import SEPARATOR
from goqueue.model.security.users import User
from goqueue.service.security.allowed_waits import AllowedWaits
from goqueue.service.security.denials import denied
from goqueue.service.security.own_topics import LOOKING, OwnTopics, is_inner
from goqueue.service.security.ownership import OF_TENANTS, Ownership, local
from goqueue.service.security.rule_asking import Rules
from goqueue.service.security.witness import Witness

# What produce and fetch ask for: Python 3.11 looks a member of an enum up by a call of its own.
_KAFKA: Final = Door.KAFKA
_CLUSTER: Final = Resource.CLUSTER
_TOPIC: Final = Resource.TOPIC
_READ: Final = Verb.READ


class Deciding:
    """`tenants` has the names of those there are; `user_of`, `topic_of` find users and topics."""

    def __init__(
        self,
        rules: Rules | None = None,
        witness: Witness | None = None,
        tenants: Callable[[], Container[str]] = frozenset,
        user_of: Callable[[str], User | None] = lambda _: None,
        topic_of: Callable[[UUID], str | None] = lambda _: None,
    ) -> None:
        self._rules = rules
        self._topics = None if rules is None else OwnTopics(rules, topic_of)
        self._user_of = user_of
        self._ownership = Ownership(None if rules is None else tenants)
        self.waits = AllowedWaits()
        # Administrative changes are told by `service/security/audited.py`.
        self.witness = witness

    @property
    def has_rules(self) -> bool:
        return self._rules is not None

    def owns(self, caller: Caller, resource: Resource, name: str) -> bool:
        """For lists of things that whoever may see the cluster sees without further rights."""
        return self._ownership.has(caller, resource, name)

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        """For lists, from which what the caller may not see is left out."""
        if verb is _READ and is_inner(caller, resource, name):
            return False
        if caller.principal.tenant or SEPARATOR in name:
            return self._tenant_allows(caller, resource, name, verb)
        return self._topics is None or self._topics.allows(caller, resource, name, verb)

    def administers_cluster(self, caller: Caller) -> bool:
        """For what is kept for administrators when everything else is taken. Where nobody logs in,
        there are none."""
        if self._rules is None or caller.principal.tenant:
            return False
        return self._rules.allows(caller, _CLUSTER, CLUSTER_NAME, Verb.ALTER)

    def _test(self, caller: Caller, resource: Resource, verb: Verb) -> Callable[[str], bool]:
        """As `allows`, for many names."""
        return lambda name: self.allows(caller, resource, name, verb)

    def _has_every_right(self, caller: Caller) -> bool:
        return self._rules is None and not caller.principal.tenant and caller.door is _KAFKA

    def _tenant_allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        """Of callers, and of names, that may belong to a tenant."""
        if not self.owns(caller, resource, name):
            return False
        tenant = caller.principal.tenant
        if tenant and resource is _CLUSTER and verb not in OF_TENANTS:
            return False
        return self._rule_allows(caller, resource, local(tenant, resource, name), verb)

    def _rule_allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        return self._rules is None or self._rules.allows(caller, resource, name, verb)

    def _check(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> None:
        if verb is _READ and is_inner(caller, resource, name):
            raise TopicAccessDenied(f"topic {name!r} is the broker's own, and not read from here")
        tenant = caller.principal.tenant
        told = name
        if tenant or SEPARATOR in name:
            if self._tenant_allows(caller, resource, name, verb):
                return
            if resource is _TOPIC and self._copies(caller, verb):
                return
            told = local(tenant, resource, name)
            if resource is _TOPIC:
                check_no_separator(told)
        elif self._topics is None or self._topics.allows(caller, resource, name, verb):
            return
        self._tell_refused(caller, resource, name, verb)
        raise denied(caller, resource, told, verb)

    def _copies(self, caller: Caller, verb: Verb) -> bool:
        """Who may act as a broker may read topics of tenants by their inner names: backups do."""
        if self._rules is None or caller.principal.tenant or caller.door is not Door.KAFKA:
            return False
        return verb in LOOKING and self._rule_allows(
            caller, Resource.CLUSTER, CLUSTER_NAME, Verb.CLUSTER_ACTION
        )

    def _check_rule(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> None:
        if not self._rule_allows(caller, resource, name, verb):
            self._tell_refused(caller, resource, name, verb)
            raise denied(caller, resource, name, verb)

    def _tell_refused(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> None:
        if self.witness is not None:
            self.witness.refused(caller, resource, name, verb)
