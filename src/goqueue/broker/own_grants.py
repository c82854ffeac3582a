"""The broker's own work, which no caller asks for: the short list of what it may touch.

Together with `service/security/access.py` this is the only module that makes rights.
"""

from enum import Enum

from goqueue.model.rights import (
    CLUSTER_NAME,
    ActingCluster,
    ConfigurableScope,
    CreatableTopic,
    DeletableContext,
    DeletableGroup,
    DeletableSubject,
    DeletableTopic,
    DescribableGroup,
    DescribableGroups,
    DescribableTransactionalIds,
    InternalTopic,
    ReadableGroup,
    ReadableTopic,
    SchemaScope,
    WritableTopic,
)


class OwnWork(Enum):
    """Why the broker reads, writes or makes something by itself: every grant names its reason."""

    DEAD_LETTERS = "copies of messages that could not be delivered"
    REDRIVE = "dead letters on their way back to where they came from"
    FIFO_WINDOW = "what a FIFO queue took in the last minutes, to know it when it is sent again"
    SQS_QUEUE = "the queues that SQS has of every topic, opened with their settings"
    UNREAD = "messages that were handed out, and whose reader went away before it had them"
    MARKERS = "the ends of transactions, in the partitions that they wrote to"
    RETENTION = "offsets of groups that archive, before whom nothing is deleted"
    LISTS = "what a broker has, for another one that leaves out what its caller may not see"
    SPLITS = "how far a group is in partitions that others were split off"
    MOVE_TASK = "messages that an SQS move task carries to another queue"
    AUDIT = "who did what, in a topic that only brokers write"
    TENANT_REMOVAL = "what a tenant had that is removed with all of it"


def own_write(topic: str, _work: OwnWork) -> WritableTopic:
    return WritableTopic(topic)


def own_read(topic: str, _work: OwnWork) -> ReadableTopic:
    return ReadableTopic(topic)


def own_state(topic: str) -> InternalTopic:
    return InternalTopic(topic)


def own_create(topic: str, _work: OwnWork) -> CreatableTopic:
    return CreatableTopic(topic)


def own_group(group: str, _work: OwnWork) -> ReadableGroup:
    return ReadableGroup(group)


def own_look(group: str, _work: OwnWork) -> DescribableGroup:
    return DescribableGroup(group)


def own_groups(_work: OwnWork) -> DescribableGroups:
    return DescribableGroups(lambda _: True)


def own_transactional_ids(_work: OwnWork) -> DescribableTransactionalIds:
    return DescribableTransactionalIds(lambda _: True)


def own_action(_work: OwnWork) -> ActingCluster:
    return ActingCluster(CLUSTER_NAME)


def own_delete(topic: str, _work: OwnWork) -> DeletableTopic:
    return DeletableTopic(topic)


def own_delete_group(group: str, _work: OwnWork) -> DeletableGroup:
    return DeletableGroup(group)


def own_delete_subject(subject: str, _work: OwnWork) -> DeletableSubject:
    return DeletableSubject(subject)


def own_delete_context(context: str, _work: OwnWork) -> DeletableContext:
    return DeletableContext(context)


def own_configure_scope(scope: str | None, _work: OwnWork) -> ConfigurableScope:
    return ConfigurableScope(SchemaScope(scope))
