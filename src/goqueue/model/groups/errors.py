"""What the group coordinator answers when it refuses; the names are Kafka's error codes."""

from enum import Enum, auto


class GroupError(Enum):
    """Brokers tell each other the numbers, so new ones come last: an earlier release would take
    those behind for others."""

    NONE = auto()
    COORDINATOR_NOT_AVAILABLE = auto()
    NOT_COORDINATOR = auto()
    INVALID_REQUEST = auto()
    INVALID_GROUP_ID = auto()
    GROUP_ID_NOT_FOUND = auto()
    NON_EMPTY_GROUP = auto()
    GROUP_SUBSCRIBED_TO_TOPIC = auto()
    GROUP_MAX_SIZE_REACHED = auto()
    UNKNOWN_MEMBER_ID = auto()
    MEMBER_ID_REQUIRED = auto()
    ILLEGAL_GENERATION = auto()
    REBALANCE_IN_PROGRESS = auto()
    INCONSISTENT_GROUP_PROTOCOL = auto()
    INVALID_SESSION_TIMEOUT = auto()
    FENCED_INSTANCE_ID = auto()
    FENCED_MEMBER_EPOCH = auto()
    STALE_MEMBER_EPOCH = auto()
    UNRELEASED_INSTANCE_ID = auto()
    UNSUPPORTED_ASSIGNOR = auto()
    UNSUPPORTED_VERSION = auto()
    INVALID_REGULAR_EXPRESSION = auto()
    OFFSET_METADATA_TOO_LARGE = auto()
    UNSTABLE_OFFSET_COMMIT = auto()
    INVALID_PRODUCER_EPOCH = auto()
    UNKNOWN_TOPIC_OR_PARTITION = auto()
    # Not of the coordinator: the sender may not read, or see, the topic.
    TOPIC_AUTHORIZATION_FAILED = auto()
    STREAMS_INVALID_TOPOLOGY = auto()
