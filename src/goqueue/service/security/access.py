"""The one place where it is decided who may do what. Only here are rights made for callers.

While security is off there are no rules, and everyone is a super user.

Behind the doors things have inner names, which begin with the tenant they belong to. Nobody gets a
right to what another tenant has, whatever rules say; rules are asked by the names that the tenant
itself uses (decision 26).
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from typing import Final, cast
from uuid import UUID

from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.errors import AccessDenied, TopicAccessDenied, UnknownTopicId
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit, TxnOffsetCommit
from goqueue.model.groups.viewer import Viewer
from goqueue.model.log import FetchedPart, FetchPart
from goqueue.model.names import TopicPartition, check_no_separator
from goqueue.model.rights import (
    CLUSTER_NAME,
    ActingCluster,
    AlterableCluster,
    AlterableTopic,
    ChangeableUser,
    ConfigurableCluster,
    ConfigurableGroup,
    ConfigurableScope,
    ConfigurableTopic,
    CreatableTopic,
    DeletableContext,
    DeletableGroup,
    DeletableSubject,
    DeletableTopic,
    DescribableCluster,
    DescribableGroup,
    DescribableGroups,
    DescribableTopic,
    DescribableTransactionalId,
    DescribableTransactionalIds,
    IdempotentWriter,
    InspectableCluster,
    InspectableGroup,
    InspectableTopic,
    MemberRights,
    ReadableCommit,
    ReadableGroup,
    ReadablePart,
    ReadableScope,
    ReadableSubject,
    ReadableSubjects,
    ReadableTopic,
    ReadableTopics,
    ReadableTransactionCommit,
    RemovableKey,
    Resource,
    SchemaScope,
    SeenKeyUsers,
    TokenOwner,
    Verb,
    WritablePartitions,
    WritableSubject,
    WritableTopic,
    WritableTransactionalId,
)
from goqueue.model.schemas.contexts import GLOBAL_SCOPE, scope_of
from goqueue.model.security.tenants import SEPARATOR, inner_pattern, local_name
from goqueue.model.security.tokens import DelegationToken
from goqueue.model.security.users import User
from goqueue.model.transactions.messages import AddPartitions
from goqueue.service.security.allowed_waits import AllowedWaits
from goqueue.service.security.denials import denied, word
from goqueue.service.security.own_groups import check_not_own
from goqueue.service.security.own_topics import LOOKING, OwnTopics, is_inner
from goqueue.service.security.ownership import OF_TENANTS, Ownership, local
from goqueue.service.security.rule_asking import Rules
from goqueue.service.security.witness import Witness
from goqueue.service.sorted_requests import SortedCommit, SortedParts, SortedTransactionCommit

# Settings of the registry for more than a subject: of the default context, and of all contexts.
_WIDE_SCOPES: Final = (None, GLOBAL_SCOPE)
# What produce and fetch ask for: Python 3.11 looks a member of an enum up by a call of its own.
_KAFKA: Final = Door.KAFKA
_CLUSTER: Final = Resource.CLUSTER
_TOPIC: Final = Resource.TOPIC
_READ: Final = Verb.READ
_WRITE: Final = Verb.WRITE


class Access:
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

    # --- topics ---------------------------------------------------------------------------

    def readable_topic(self, caller: Caller, name: str) -> ReadableTopic:
        self._check(caller, _TOPIC, name, _READ)
        return ReadableTopic(name)

    def readable_topics(self, caller: Caller) -> ReadableTopics:
        """For what tells of many topics, from which that of others is left out."""
        return ReadableTopics(self._test(caller, Resource.TOPIC, Verb.READ))

    def readable_parts(self, caller: Caller, parts: Sequence[FetchPart]) -> SortedParts:
        refused: dict[int, FetchedPart] = {}
        if not self._has_every_right(caller):
            for position, part in enumerate(parts):
                try:
                    self._check(caller, _TOPIC, part.topic, _READ)
                except AccessDenied as error:
                    refused[position] = FetchedPart(part.topic, part.index, error)
        if refused:
            parts = [part for position, part in enumerate(parts) if position not in refused]
        # Mostly nothing is copied: a fetch may have thousands of parts.
        return SortedParts(cast("Sequence[ReadablePart]", parts), refused)

    def readable_part(self, caller: Caller, part: FetchPart) -> ReadablePart:
        self._check(caller, _TOPIC, part.topic, _READ)
        return ReadablePart(part)

    def writable_topic(self, caller: Caller, name: str) -> WritableTopic:
        self._check(caller, _TOPIC, name, _WRITE)
        return WritableTopic(name)

    def creatable_topic(self, caller: Caller, name: str) -> CreatableTopic:
        """May make this topic; the right to make topics at all is enough."""
        check_no_separator(local_name(caller.principal.tenant, name))
        if not self.owns(caller, Resource.TOPIC, name) or not self.allows(
            caller, Resource.CLUSTER, CLUSTER_NAME, Verb.CREATE
        ):
            self._check(caller, Resource.TOPIC, name, Verb.CREATE)
        return CreatableTopic(name)

    def deletable_topic(self, caller: Caller, name: str) -> DeletableTopic:
        self._check(caller, Resource.TOPIC, name, Verb.DELETE)
        return DeletableTopic(name)

    def alterable_topic(self, caller: Caller, name: str) -> AlterableTopic:
        self._check(caller, Resource.TOPIC, name, Verb.ALTER)
        return AlterableTopic(name)

    def describable_topic(self, caller: Caller, name: str) -> DescribableTopic:
        self._check(caller, Resource.TOPIC, name, Verb.DESCRIBE)
        return DescribableTopic(name)

    def inspectable_topic(self, caller: Caller, name: str) -> InspectableTopic:
        self._check(caller, Resource.TOPIC, name, Verb.DESCRIBE_CONFIGS)
        return InspectableTopic(name)

    def configurable_topic(self, caller: Caller, name: str) -> ConfigurableTopic:
        self._check(caller, Resource.TOPIC, name, Verb.ALTER_CONFIGS)
        return ConfigurableTopic(name)

    def check_topic_of_id(self, caller: Caller, topic_id: UUID, name: str, verb: Verb) -> None:
        """For a request that names its topic by id: whoever may not is told so, as in Kafka, but
        not the name. Ids are no secret, and a client that is told the id was unknown asks for
        metadata again, and again.
        """
        if not self.owns(caller, Resource.TOPIC, name):
            if self._copies(caller, verb):
                return
            raise UnknownTopicId(f"there is no topic with id {topic_id}")
        if not self.allows(caller, Resource.TOPIC, name, verb):
            self._tell_refused(caller, Resource.TOPIC, name, verb)
            raise TopicAccessDenied(
                f"{caller.principal} is not allowed to {word(verb)} the topic with id {topic_id}"
            )

    def check_sees_all(self, caller: Caller, names: Iterable[str]) -> None:
        """For a description of a group, which is refused as a whole if it has topics that the
        caller may not see; without naming them, for the caller did not.
        """
        if not all(self.sees_topic(caller, name) for name in names):
            raise TopicAccessDenied(
                f"the group has topics that {caller.principal} is not allowed to describe"
            )

    # --- groups ---------------------------------------------------------------------------

    def readable_group(self, caller: Caller, name: str) -> ReadableGroup:
        self._check(caller, Resource.GROUP, name, Verb.READ)
        check_not_own(caller, name)
        return ReadableGroup(name)

    def describable_group(self, caller: Caller, name: str) -> DescribableGroup:
        self._check(caller, Resource.GROUP, name, Verb.DESCRIBE)
        return DescribableGroup(name)

    def deletable_group(self, caller: Caller, name: str) -> DeletableGroup:
        self._check(caller, Resource.GROUP, name, Verb.DELETE)
        check_not_own(caller, name)
        return DeletableGroup(name)

    def inspectable_group(self, caller: Caller, name: str) -> InspectableGroup:
        self._check(caller, Resource.GROUP, name, Verb.DESCRIBE_CONFIGS)
        return InspectableGroup(name)

    def configurable_group(self, caller: Caller, name: str) -> ConfigurableGroup:
        self._check(caller, Resource.GROUP, name, Verb.ALTER_CONFIGS)
        check_not_own(caller, name)
        return ConfigurableGroup(name)

    def describable_groups(self, caller: Caller) -> DescribableGroups:
        """For lists; the right to see the cluster is enough for all of the caller's tenant."""
        if self._rule_allows(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE):
            return DescribableGroups(lambda name: self.owns(caller, Resource.GROUP, name))
        return DescribableGroups(self._test(caller, Resource.GROUP, Verb.DESCRIBE))

    def member_rights(self, caller: Caller, group: str, topics: Iterable[str]) -> MemberRights:
        """`topics` are all that the member may come upon."""
        may_read = self._test(caller, Resource.TOPIC, Verb.READ)
        named = None if self._rules is None and not caller.principal.tenant else topics
        return MemberRights(self.readable_group(caller, group), may_read, named)

    def readable_commit(self, caller: Caller, request: OffsetCommit) -> SortedCommit:
        refused = self._unreadable(caller, request.offsets)
        if refused:
            kept = tuple(each for each in request.offsets if each.topic not in refused)
            request = replace(request, offsets=kept)
        return SortedCommit(ReadableCommit(request), refused)

    def readable_transaction_commit(
        self, caller: Caller, request: TxnOffsetCommit
    ) -> SortedTransactionCommit:
        refused = self._unreadable(caller, request.offsets)
        if refused:
            kept = tuple(each for each in request.offsets if each.topic not in refused)
            request = replace(request, offsets=kept)
        return SortedTransactionCommit(ReadableTransactionCommit(request), refused)

    def _unreadable(self, caller: Caller, offsets: Iterable[OffsetToCommit]) -> frozenset[str]:
        if self._has_every_right(caller):
            return frozenset()
        readable = self.readable_topics(caller)
        refused = frozenset(each.topic for each in offsets if each.topic not in readable)
        for name in refused:
            self._tell_refused(caller, Resource.TOPIC, name, Verb.READ)
        return refused

    # --- transactional ids and producers --------------------------------------------------

    def writable_transactional_id(self, caller: Caller, name: str) -> WritableTransactionalId:
        self._check(caller, Resource.TRANSACTIONAL_ID, name, Verb.WRITE)
        return WritableTransactionalId(name)

    def describable_transactional_id(self, caller: Caller, name: str) -> DescribableTransactionalId:
        self._check(caller, Resource.TRANSACTIONAL_ID, name, Verb.DESCRIBE)
        return DescribableTransactionalId(name)

    def describable_transactional_ids(self, caller: Caller) -> DescribableTransactionalIds:
        """For lists."""
        return DescribableTransactionalIds(
            self._test(caller, Resource.TRANSACTIONAL_ID, Verb.DESCRIBE)
        )

    def writable_partitions(
        self, caller: Caller, request: AddPartitions
    ) -> WritablePartitions | frozenset[TopicPartition]:
        """The request, or the partitions for which it must be refused: they are added together."""
        refused = frozenset(
            place
            for place in request.partitions
            if not self.allows(caller, Resource.TOPIC, place.topic, Verb.WRITE)
        )
        for name in {place.topic for place in refused}:
            self._tell_refused(caller, Resource.TOPIC, name, Verb.WRITE)
        return refused or WritablePartitions(request)

    def idempotent_writer(self, caller: Caller) -> IdempotentWriter:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.IDEMPOTENT_WRITE)
        return IdempotentWriter(CLUSTER_NAME)

    # --- subjects -------------------------------------------------------------------------

    def readable_subject(self, caller: Caller, name: str) -> ReadableSubject:
        self._check(caller, Resource.SUBJECT, name, Verb.READ)
        return ReadableSubject(name)

    def readable_subjects(self, caller: Caller) -> ReadableSubjects:
        """As `readable_topics`."""
        return ReadableSubjects(self._test(caller, Resource.SUBJECT, Verb.READ))

    def writable_subject(self, caller: Caller, name: str) -> WritableSubject:
        self._check(caller, Resource.SUBJECT, name, Verb.WRITE)
        return WritableSubject(name)

    def deletable_subject(self, caller: Caller, name: str) -> DeletableSubject:
        self._check(caller, Resource.SUBJECT, name, Verb.DELETE)
        return DeletableSubject(name)

    def deletable_context(self, caller: Caller, context: str) -> DeletableContext:
        self._check(caller, Resource.SUBJECT, scope_of(context), Verb.DELETE)
        return DeletableContext(context)

    def readable_scope(self, caller: Caller, subject: str | None) -> ReadableScope:
        """Settings of a subject, of a context, or of all; to be seen."""
        if subject in _WIDE_SCOPES:
            self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE_CONFIGS)
        else:
            self._check(caller, Resource.SUBJECT, subject, Verb.READ)
        return ReadableScope(SchemaScope(subject))

    def configurable_scope(self, caller: Caller, subject: str | None) -> ConfigurableScope:
        """Settings of a subject, of a context, or of all; to be changed."""
        if subject in _WIDE_SCOPES:
            self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER_CONFIGS)
        else:
            self._check(caller, Resource.SUBJECT, subject, Verb.ALTER_CONFIGS)
        return ConfigurableScope(SchemaScope(subject))

    # --- the cluster ----------------------------------------------------------------------

    def describable_cluster(self, caller: Caller) -> DescribableCluster:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE)
        return DescribableCluster(CLUSTER_NAME)

    def inspectable_cluster(self, caller: Caller) -> InspectableCluster:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE_CONFIGS)
        return InspectableCluster(CLUSTER_NAME)

    def configurable_cluster(self, caller: Caller) -> ConfigurableCluster:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER_CONFIGS)
        return ConfigurableCluster(CLUSTER_NAME)

    def alterable_cluster(self, caller: Caller) -> AlterableCluster:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER)
        return AlterableCluster(CLUSTER_NAME)

    def marking_cluster(self, caller: Caller) -> ActingCluster:
        """To end a hanging transaction; administrators may as well as brokers (KIP-1037)."""
        if not self.allows(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER):
            return self.acting_cluster(caller)
        return ActingCluster(CLUSTER_NAME)

    def acting_cluster(self, caller: Caller) -> ActingCluster:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.CLUSTER_ACTION)
        return ActingCluster(CLUSTER_NAME)

    def alterable_accounts(self, caller: Caller) -> AlterableCluster:
        """May change users, their keys and the rules of its tenant; those of all tenants, if it has
        none. Kafka has no other right for it than the one to change the cluster."""
        self._check_rule(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER)
        return AlterableCluster(CLUSTER_NAME)

    def administers_cluster(self, caller: Caller) -> bool:
        """For what is kept for administrators when everything else is taken."""
        may_change = self._rule_allows(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER)
        return may_change and not caller.principal.tenant

    def describable_accounts(self, caller: Caller) -> DescribableCluster:
        self._check_rule(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE)
        return DescribableCluster(CLUSTER_NAME)

    # --- users ----------------------------------------------------------------------------

    def changeable_user(self, caller: Caller, name: str) -> ChangeableUser:
        """Everyone may change its own password, and make keys of its own."""
        if not self._is_self(caller, name):
            self.alterable_accounts(caller)
        return ChangeableUser(name)

    def token_owner(self, caller: Caller, owner: str) -> TokenOwner:
        """Everyone may make delegation tokens of its own (KIP-373)."""
        if owner != str(caller.principal):
            self._check(caller, Resource.USER, owner, Verb.CREATE_TOKENS)
        return TokenOwner(owner)

    def sees_token(self, caller: Caller, token: DelegationToken) -> bool:
        """Its owner, those who may renew it, and who may see it or all of its owner."""
        asks, tenant = str(caller.principal), caller.principal.tenant
        is_named = tenant == token.tenant and asks in (token.owner, *token.renewers)
        sees_it = self.allows(caller, Resource.DELEGATION_TOKEN, token.id, Verb.DESCRIBE)
        sees_all = self.allows(caller, Resource.USER, token.owner, Verb.DESCRIBE_TOKENS)
        return is_named or sees_it or sees_all

    # --- keys of users --------------------------------------------------------------------

    def removable_key(self, caller: Caller, key_id: str, owner: str | None) -> RemovableKey:
        if owner is None or not self._is_self(caller, owner):
            self.alterable_accounts(caller)
        return RemovableKey(key_id)

    def seen_key_users(self, caller: Caller) -> SeenKeyUsers:
        """All with the right to see the cluster, else oneself; those of other tenants are left out
        by whoever lists them."""
        if self._rule_allows(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE):
            return SeenKeyUsers(lambda _: True)
        return SeenKeyUsers(lambda name: self._is_self(caller, name))

    def _is_self(self, caller: Caller, name: str) -> bool:
        """Not by the name alone: somebody from outside may have that of a tenant's user."""
        user = self._user_of(name)
        return user is not None and user.principal == caller.principal

    # --- deciding -------------------------------------------------------------------------

    def sees_topic(self, caller: Caller, name: str) -> bool:
        """Whether a list or a description may show the caller this topic."""
        return self.allows(caller, Resource.TOPIC, name, Verb.DESCRIBE)

    def owns(self, caller: Caller, resource: Resource, name: str) -> bool:
        """For lists of things that whoever may see the cluster sees without further rights."""
        return self._ownership.has(caller, resource, name)

    def pattern(self, caller: Caller, text: str) -> str:
        """A regular expression of the caller, as one over inner names."""
        return inner_pattern(caller.principal.tenant, text)

    def viewer(self, caller: Caller, *, must_read: bool = False) -> Viewer | None:
        """For whom such a regular expression finds topics."""
        return Viewer(*caller.principal, caller.address, must_read) if self.has_rules else None

    def sees_found(self, viewer: Viewer, name: str) -> bool:
        """Whether it finds this one."""
        principal = Principal(viewer.kind, viewer.name, viewer.tenant)
        caller = Caller(principal=principal, door=Door.KAFKA, address=viewer.address)
        verb = Verb.READ if viewer.must_read else Verb.DESCRIBE
        return self.allows(caller, Resource.TOPIC, name, verb)

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        """For lists, from which what the caller may not see is left out."""
        if verb is _READ and is_inner(caller, resource, name):
            return False
        if caller.principal.tenant or SEPARATOR in name:
            return self._tenant_allows(caller, resource, name, verb)
        return self._topics is None or self._topics.allows(caller, resource, name, verb)

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
