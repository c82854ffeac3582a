"""One tree of errors. The class says what went wrong, whose fault it is and whether to retry.

Doors map classes to their protocol's codes; nothing below a door knows such a code.
"""

from collections.abc import Mapping
from typing import ClassVar


class GoQueueError(Exception):
    """Base of everything the broker reports. `code` is stable and shown to HTTP users."""

    code: ClassVar[str] = "internal"
    retriable: ClassVar[bool] = False

    @property
    def message(self) -> str:
        return str(self)


# --- the caller's fault -------------------------------------------------------------------


class InvalidRequest(GoQueueError):
    """The request makes no sense; the message names the field and the limit."""

    code = "invalid_request"


class InvalidTopicName(InvalidRequest):
    code = "invalid_topic_name"


class InvalidPartitions(InvalidRequest):
    code = "invalid_partitions"


class InvalidReplicationFactor(InvalidRequest):
    code = "invalid_replication_factor"


class InvalidReplicaAssignment(InvalidRequest):
    code = "invalid_replica_assignment"


class InvalidConfig(InvalidRequest):
    code = "invalid_config"


class UnknownLogDir(InvalidRequest):
    """A broker has one directory, and this is another one."""

    code = "unknown_log_dir"


class InvalidRecord(InvalidRequest):
    """A record or batch that must not be stored. `record_index` points at it where known.

    `record_errors` says of each record of a batch that is at fault why, by its place.
    """

    code = "invalid_record"
    record_index: int | None
    record_errors: Mapping[int, str]

    def __init__(
        self,
        message: str,
        record_index: int | None = None,
        record_errors: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.record_index = record_index
        if record_errors is None:
            record_errors = {} if record_index is None else {record_index: message}
        self.record_errors = record_errors


class UnfitRecord(InvalidRecord):
    """It does not fit the schemas of its topic."""


class InvalidTimestamp(InvalidRecord):
    code = "invalid_timestamp"


class UnsupportedCompression(InvalidRequest):
    code = "unsupported_compression"


class RecordTooLarge(InvalidRequest):
    code = "record_too_large"


class InvalidRequiredAcks(InvalidRequest):
    code = "invalid_required_acks"


class UnknownBroker(InvalidRequest):
    """Of which something was to be set or told: Kafka calls the request invalid."""

    code = "unknown_broker"


class TopicExists(GoQueueError):
    code = "topic_exists"


class UnknownTopic(GoQueueError):
    code = "unknown_topic"
    retriable = True


class UnknownNode(GoQueueError):
    """No such node has joined the cluster, or it was forgotten."""

    code = "unknown_node"


class NoMoveInProgress(GoQueueError):
    """The partition is not on its way to other brokers."""

    code = "no_move_in_progress"


class UnknownTopicId(GoQueueError):
    code = "unknown_topic_id"
    retriable = True


class UnknownPartition(GoQueueError):
    """`record_index`: of the record that was to go there, where there are several."""

    code = "unknown_partition"
    retriable = True
    record_index: int | None

    def __init__(self, message: str, record_index: int | None = None) -> None:
        super().__init__(message)
        self.record_index = record_index


class OffsetOutOfRange(GoQueueError):
    code = "offset_out_of_range"


class UnknownDelayedMessage(GoQueueError):
    """No message of this id waits for the topic: it never did, or it was cancelled."""

    code = "unknown_delayed_message"


class UnknownBackup(GoQueueError):
    """This broker holds nothing for a backup of this name: it ended, or never began."""

    code = "unknown_backup"


class TooLateToCancel(GoQueueError):
    """The delivery of a delayed message has begun, or is over."""

    code = "too_late_to_cancel"


class PolicyViolation(GoQueueError):
    """Allowed in form, refused by a rule of this broker (such as touching an internal topic)."""

    code = "policy_violation"


class OlderBrokers(GoQueueError):
    """Brokers of the cluster run an earlier release, which does not know what was asked for."""

    code = "older_brokers"


class TooManyGroups(PolicyViolation):
    """There are as many groups as this broker takes."""


class UnknownQueue(GoQueueError):
    """The group does not read the topic as a queue."""

    code = "unknown_group"


class TooManyInFlight(GoQueueError):
    """A queue gives out no more messages until some are settled."""

    code = "too_many_in_flight"
    retriable = True


class AccessDenied(GoQueueError):
    """The caller may not do this. Says nothing of whether what it asks for exists."""

    code = "access_denied"


class TopicAccessDenied(AccessDenied):
    code = "topic_access_denied"


class GroupAccessDenied(AccessDenied):
    code = "group_access_denied"


class ClusterAccessDenied(AccessDenied):
    code = "cluster_access_denied"


class TransactionalIdAccessDenied(AccessDenied):
    code = "transactional_id_access_denied"


class SubjectAccessDenied(AccessDenied):
    code = "subject_access_denied"


class InvalidProducerEpoch(GoQueueError):
    """A newer producer with this id has written here; the caller was fenced."""

    code = "invalid_producer_epoch"


class OutOfOrderSequence(GoQueueError):
    """A producer's batch does not follow its last one."""

    code = "out_of_order_sequence"


class DuplicateSequence(GoQueueError):
    """A batch that was stored before, so long ago that its offset is no longer known."""

    code = "duplicate_sequence"


class InvalidTransactionState(GoQueueError):
    """A write that does not fit the state of its producer's transaction."""

    code = "invalid_transaction_state"


class TransactionCoordinatorFenced(GoQueueError):
    """A transaction marker from a coordinator that has been replaced."""

    code = "transaction_coordinator_fenced"


# --- the broker's side --------------------------------------------------------------------


class FencedLeaderEpoch(GoQueueError):
    """The caller's leader epoch is older than the partition's."""

    code = "fenced_leader_epoch"
    retriable = True


class StaleBrokerEpoch(GoQueueError):
    """A broker that has registered anew since asks under its earlier epoch."""

    code = "stale_broker_epoch"
    retriable = True


class UnknownLeaderEpoch(GoQueueError):
    """The caller's leader epoch is newer than the partition's."""

    code = "unknown_leader_epoch"
    retriable = True


class NotLeader(GoQueueError):
    """`leader_url` is where the broker that leads answers HTTP; empty if there is none."""

    code = "not_leader"
    retriable = True
    leader_url: str = ""

    def __init__(self, message: str, *, leader_url: str = "") -> None:
        super().__init__(message)
        self.leader_url = leader_url


class LayoutChanged(GoQueueError):
    """The topic has other partitions than its producer may know of. Nothing was stored."""

    code = "layout_changed"
    retriable = True


class NotController(GoQueueError):
    """Another broker decides who leads."""

    code = "not_controller"
    retriable = True


class StateLoading(GoQueueError):
    """This node has become the leader of some state a moment ago, and is still reading it."""

    code = "state_loading"
    retriable = True


class NotEnoughReplicas(GoQueueError):
    """Fewer replicas are in sync than `min.insync.replicas` asks for; nothing was appended."""

    code = "not_enough_replicas"
    retriable = True


class NotEnoughReplicasAfterAppend(GoQueueError):
    """As above, after the append: it is committed when enough replicas are in sync again."""

    code = "not_enough_replicas_after_append"
    retriable = True


class OffsetNotAvailable(GoQueueError):
    """A new leader does not know yet how far the log was committed."""

    code = "offset_not_available"
    retriable = True


class RequestTimedOut(GoQueueError):
    code = "request_timed_out"
    retriable = True


class TooFewBrokers(GoQueueError):
    """What was asked for needs more brokers than there are; more may come."""

    code = "too_few_brokers"
    retriable = True


class CorruptBatch(GoQueueError):
    """Bytes that are not what was once written, or were damaged on the way here."""

    code = "corrupt_batch"
    retriable = True


class UnpackedTooLarge(CorruptBatch):
    """A batch that is not decoded, for it would take more memory than the topic allows."""

    code = "unpacked_too_large"
    retriable = False


class PartitionOffline(GoQueueError):
    """Storage failed for this partition; others go on. The message says what failed."""

    code = "partition_offline"
    retriable = True


class BrokerUnreachable(GoQueueError):
    """Nobody answers at a broker's address."""

    code = "broker_unreachable"
    retriable = True


class ShuttingDown(GoQueueError):
    code = "shutting_down"
    retriable = True


class Overloaded(GoQueueError):
    """A bound of this broker is reached; the message names it."""

    code = "overloaded"
    retriable = True


# --- start-up -----------------------------------------------------------------------------


class DataDirectoryError(GoQueueError):
    """The data directory cannot be used: locked, of an unknown format, not writable."""

    code = "data_directory"


class DataDirectoryInUse(DataDirectoryError):
    """A broker runs on it."""


class MetadataCorrupt(GoQueueError):
    """The metadata log is damaged where it cannot be repaired without losing something."""

    code = "metadata_corrupt"


class Conflict(GoQueueError):
    """A compare-and-set found another revision than expected."""

    code = "conflict"
    retriable = True


class MetadataUnavailable(GoQueueError):
    """The metadata store cannot write now; what was answered before is safe."""

    code = "metadata_unavailable"
    retriable = True


class CompactedRevision(GoQueueError):
    """A watch asks for history that is gone. Read the prefix again and watch from there."""

    code = "compacted_revision"
    retriable = True

    def __init__(self, message: str, oldest_revision: int) -> None:
        super().__init__(message)
        self.oldest_revision = oldest_revision


class LeaseNotFound(GoQueueError):
    """The lease expired, was revoked or never was."""

    code = "lease_not_found"
