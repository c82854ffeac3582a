"""The one place where the broker's errors become Kafka's error codes."""

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from goqueue.model import errors
from goqueue.model.security import errors as security

_CODES: Final[Mapping[type[errors.GoQueueError], ErrorCode]] = {
    errors.GoQueueError: ErrorCode.unknown_server_error,
    errors.InvalidRequest: ErrorCode.invalid_request,
    errors.InvalidTopicName: ErrorCode.invalid_topic_exception,
    errors.InvalidPartitions: ErrorCode.invalid_partitions,
    errors.InvalidReplicationFactor: ErrorCode.invalid_replication_factor,
    errors.InvalidReplicaAssignment: ErrorCode.invalid_replica_assignment,
    errors.InvalidConfig: ErrorCode.invalid_config,
    errors.UnknownLogDir: ErrorCode.log_dir_not_found,
    errors.InvalidRecord: ErrorCode.invalid_record,
    errors.InvalidTimestamp: ErrorCode.invalid_timestamp,
    errors.UnsupportedCompression: ErrorCode.unsupported_compression_type,
    errors.RecordTooLarge: ErrorCode.message_too_large,
    errors.InvalidRequiredAcks: ErrorCode.invalid_required_acks,
    errors.TopicExists: ErrorCode.topic_already_exists,
    errors.UnknownTopic: ErrorCode.unknown_topic_or_partition,
    errors.UnknownTopicId: ErrorCode.unknown_topic_id,
    errors.UnknownPartition: ErrorCode.unknown_topic_or_partition,
    errors.OffsetOutOfRange: ErrorCode.offset_out_of_range,
    errors.PolicyViolation: ErrorCode.policy_violation,
    # As Kafka says of what its `metadata.version` is too low for.
    errors.OlderBrokers: ErrorCode.unsupported_version,
    # The one limit of groups that clients know of, and do not repeat.
    errors.TooManyGroups: ErrorCode.group_max_size_reached,
    errors.TopicAccessDenied: ErrorCode.topic_authorization_failed,
    errors.GroupAccessDenied: ErrorCode.group_authorization_failed,
    errors.ClusterAccessDenied: ErrorCode.cluster_authorization_failed,
    errors.TransactionalIdAccessDenied: ErrorCode.transactional_id_authorization_failed,
    security.AuthenticationFailed: ErrorCode.sasl_authentication_failed,
    security.UnsupportedMechanism: ErrorCode.unsupported_sasl_mechanism,
    security.UnknownUser: ErrorCode.resource_not_found,
    security.UserExists: ErrorCode.duplicate_resource,
    security.NamedTwice: ErrorCode.duplicate_resource,
    security.UnacceptableCredential: ErrorCode.unacceptable_credential,
    security.TokensDisabled: ErrorCode.delegation_token_auth_disabled,
    security.TokenNotAllowed: ErrorCode.delegation_token_request_not_allowed,
    security.TokenAccessDenied: ErrorCode.delegation_token_authorization_failed,
    security.TokenNotOwned: ErrorCode.delegation_token_owner_mismatch,
    security.UnknownToken: ErrorCode.delegation_token_not_found,
    security.TokenExpired: ErrorCode.delegation_token_expired,
    security.SecurityDisabled: ErrorCode.security_disabled,
    errors.FencedLeaderEpoch: ErrorCode.fenced_leader_epoch,
    errors.UnknownLeaderEpoch: ErrorCode.unknown_leader_epoch,
    errors.StaleBrokerEpoch: ErrorCode.stale_broker_epoch,
    errors.InvalidProducerEpoch: ErrorCode.invalid_producer_epoch,
    errors.OutOfOrderSequence: ErrorCode.out_of_order_sequence_number,
    errors.DuplicateSequence: ErrorCode.duplicate_sequence_number,
    errors.InvalidTransactionState: ErrorCode.invalid_txn_state,
    errors.TransactionCoordinatorFenced: ErrorCode.transaction_coordinator_fenced,
    errors.NotLeader: ErrorCode.not_leader_or_follower,
    # Without the name of a leader: clients ask for metadata, and so learn of the partitions.
    errors.LayoutChanged: ErrorCode.not_leader_or_follower,
    # Clients ask again until there are enough.
    errors.TooFewBrokers: ErrorCode.coordinator_not_available,
    errors.NotController: ErrorCode.not_controller,
    errors.UnknownNode: ErrorCode.broker_id_not_registered,
    errors.NoMoveInProgress: ErrorCode.no_reassignment_in_progress,
    errors.StateLoading: ErrorCode.coordinator_load_in_progress,
    errors.NotEnoughReplicas: ErrorCode.not_enough_replicas,
    errors.NotEnoughReplicasAfterAppend: ErrorCode.not_enough_replicas_after_append,
    errors.OffsetNotAvailable: ErrorCode.offset_not_available,
    errors.RequestTimedOut: ErrorCode.request_timed_out,
    errors.CorruptBatch: ErrorCode.corrupt_message,
    # Java's producer then splits the batch and sends the parts.
    errors.UnpackedTooLarge: ErrorCode.message_too_large,
    errors.PartitionOffline: ErrorCode.kafka_storage_error,
    # Makes clients look for the leader again, and so find this broker once it is back.
    errors.ShuttingDown: ErrorCode.not_leader_or_follower,
    errors.MetadataUnavailable: ErrorCode.request_timed_out,
    # Another writer was faster; clients try an operation that timed out once more.
    errors.Conflict: ErrorCode.request_timed_out,
}


def error_code(error: errors.GoQueueError) -> ErrorCode:
    for kind in type(error).__mro__:
        code = _CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.unknown_server_error
