"""Rights as values: an operation takes the name of what it touches as a type that proves the right.

To the type checker a `WritableTopic` is not a `str`, so that code which did not ask for the right
does not type-check; at run time it is the name itself and costs nothing. Only
`service/security/rights/` makes these values, and `broker/own_grants.py` for the broker's own work;
a test of the source tree holds everybody else to it. `MemberRights` below make rights out of those
that they were given.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, NewType

from goqueue.model.calls import Travels
from goqueue.model.errors import TopicAccessDenied
from goqueue.model.groups.messages import OffsetCommit, TxnOffsetCommit
from goqueue.model.log import FetchPart
from goqueue.model.topics import is_internal
from goqueue.model.transactions.messages import AddPartitions


class Resource(Enum):
    """By the numbers of Kafka's ACLs; subjects are our own."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7
    SUBJECT = 100


class Verb(Enum):
    """By the numbers of Kafka's ACLs."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


# What can be asked of each kind (KIP-430).
VERBS: Final[Mapping[Resource, tuple[Verb, ...]]] = {
    Resource.TOPIC: (
        Verb.READ,
        Verb.WRITE,
        Verb.CREATE,
        Verb.DELETE,
        Verb.ALTER,
        Verb.DESCRIBE,
        Verb.DESCRIBE_CONFIGS,
        Verb.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Verb.READ,
        Verb.DELETE,
        Verb.DESCRIBE,
        Verb.DESCRIBE_CONFIGS,
        Verb.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Verb.CREATE,
        Verb.ALTER,
        Verb.DESCRIBE,
        Verb.CLUSTER_ACTION,
        Verb.DESCRIBE_CONFIGS,
        Verb.ALTER_CONFIGS,
        Verb.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (Verb.WRITE, Verb.DESCRIBE),
    Resource.DELEGATION_TOKEN: (Verb.DESCRIBE,),
    Resource.USER: (Verb.CREATE_TOKENS, Verb.DESCRIBE_TOKENS),
    Resource.SUBJECT: (Verb.READ, Verb.WRITE, Verb.DELETE, Verb.ALTER_CONFIGS),
}

# The one resource of its kind; Kafka's name for it.
CLUSTER_NAME: Final = "kafka-cluster"

ReadableTopic = NewType("ReadableTopic", str)
WritableTopic = NewType("WritableTopic", str)
CreatableTopic = NewType("CreatableTopic", str)
DeletableTopic = NewType("DeletableTopic", str)
# In which the broker keeps its state; no caller gets this right.
InternalTopic = NewType("InternalTopic", str)
AlterableTopic = NewType("AlterableTopic", str)
DescribableTopic = NewType("DescribableTopic", str)
# Whose settings may be seen, and changed.
InspectableTopic = NewType("InspectableTopic", str)
ConfigurableTopic = NewType("ConfigurableTopic", str)


class _Allowed:
    """Those among many names, in lists that cannot be asked about one by one before."""

    __slots__ = ("_allows",)

    def __init__(self, allows: Callable[[str], bool]) -> None:
        self._allows = allows

    def __contains__(self, name: str) -> bool:
        return self._allows(name)


class ReadableTopics(_Allowed):
    __slots__ = ()


class ReadableSubjects(_Allowed):
    __slots__ = ()


class SeenKeyUsers(_Allowed):
    """Users whose keys may be seen."""

    __slots__ = ()


class DescribableGroups(_Allowed):
    __slots__ = ()


class DescribableTransactionalIds(_Allowed):
    __slots__ = ()


# A part of a fetch whose topic is readable.
ReadablePart = NewType("ReadablePart", FetchPart)

# Join, commit offsets, take and acknowledge messages.
ReadableGroup = NewType("ReadableGroup", str)
DescribableGroup = NewType("DescribableGroup", str)
DeletableGroup = NewType("DeletableGroup", str)
InspectableGroup = NewType("InspectableGroup", str)
ConfigurableGroup = NewType("ConfigurableGroup", str)

# Offsets to commit, all of topics that may be read.
ReadableCommit = NewType("ReadableCommit", OffsetCommit)
ReadableTransactionCommit = NewType("ReadableTransactionCommit", TxnOffsetCommit)

# Partitions to be written within a transaction, all of topics that may be written.
WritablePartitions = NewType("WritablePartitions", AddPartitions)
WritableTransactionalId = NewType("WritableTransactionalId", str)
DescribableTransactionalId = NewType("DescribableTransactionalId", str)

ReadableSubject = NewType("ReadableSubject", str)
WritableSubject = NewType("WritableSubject", str)
DeletableSubject = NewType("DeletableSubject", str)
# A context of the schema registry by its name, without colons.
DeletableContext = NewType("DeletableContext", str)


class PackedMemberRights(NamedTuple):
    group: ReadableGroup
    topics: frozenset[str] | None
    # Left out unless it is so: brokers of earlier releases do not know it.
    administers_cluster: bool = False


class MemberRights(Travels):
    """What the client of a member that lives in a broker may do, asked as it is needed.

    They go with every request to the broker that it lives in, as rules may have changed.
    """

    __slots__ = ("_may_read", "_topics", "administers_cluster", "group")
    form = PackedMemberRights

    def __init__(
        self,
        group: ReadableGroup,
        may_read: Callable[[str], bool],
        topics: Iterable[str] | None,
        *,
        administers_cluster: bool = False,
    ) -> None:
        """`topics` are all that the member may come upon, for the way to another broker; None: the
        client may read all but the brokers' own. `administers_cluster`: the client may use what is
        kept for administrators."""
        self.group = group
        self.administers_cluster = administers_cluster
        self._may_read = may_read
        self._topics = topics

    def packed(self) -> list[Any]:
        topics = None if self._topics is None else list(filter(self._may_read, self._topics))
        return [self.group, topics, *([True] if self.administers_cluster else ())]

    @classmethod
    def unpacked(cls, data: Any) -> "MemberRights":
        group, topics, administers = PackedMemberRights(*data)
        may_read = (lambda name: not is_internal(name)) if topics is None else topics.__contains__
        return cls(group, may_read, topics, administers_cluster=administers)

    def topic(self, name: str) -> ReadableTopic | None:
        """None if the client may not read the topic: its partitions are left out."""
        return ReadableTopic(name) if self._may_read(name) else None

    def part(self, part: FetchPart) -> ReadablePart | None:
        return None if self.topic(part.topic) is None else ReadablePart(part)

    def commit(self, request: OffsetCommit) -> ReadableCommit:
        """Raises if one of the topics may not be read."""
        for each in request.offsets:
            if self.topic(each.topic) is None:
                raise TopicAccessDenied(f"topic {each.topic!r} may not be read")
        return ReadableCommit(request)


class SchemaScope(NamedTuple):
    """Where settings of the schema registry count: under one subject, in a context, which is
    written between colons, or with None in the default context.
    """

    subject: str | None


# Settings that may be seen, and changed.
ReadableScope = NewType("ReadableScope", SchemaScope)
ConfigurableScope = NewType("ConfigurableScope", SchemaScope)

# One's own key, or any with the right to alter the cluster.
RemovableKey = NewType("RemovableKey", str)

# What concerns the whole cluster; the value is its name.
DescribableCluster = NewType("DescribableCluster", str)
InspectableCluster = NewType("InspectableCluster", str)
ConfigurableCluster = NewType("ConfigurableCluster", str)
# Elections that are asked for, nodes that are forgotten.
AlterableCluster = NewType("AlterableCluster", str)
# What only brokers ask of each other, such as writing transaction markers.
ActingCluster = NewType("ActingCluster", str)
# A user whose password may be changed: by itself, or by who may change any.
ChangeableUser = NewType("ChangeableUser", str)
# For whom a delegation token may be made, written `User:alice`.
TokenOwner = NewType("TokenOwner", str)
# Producing with a producer id without a transactional id.
IdempotentWriter = NewType("IdempotentWriter", str)
