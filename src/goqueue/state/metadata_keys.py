"""Which metadata keys there are, and what their values look like (JSON).

    /cluster/id                      the cluster's id
    /cluster/feature-level           what all brokers understand: newer forms wait until it rises
    /controller                      node id of the controller
    /nodes/<node id>                 what is remembered of a node, also while it is down
    /brokers/<node id>               how to reach a broker; in a cluster, under its lease
    /topics/<topic>                  id, number of partitions, own settings, how it was split
    /partitions/<topic>/<index>      `PartitionState`: leader, epoch, replicas, who is in sync
    /topic-writers/<topic>           who stores a topic's partitions, where that takes steps
    /configs/brokers/<node id>       dynamic settings of one broker; `default` for all of them
    /configs/groups/<group>          a group's own settings
    /configs/client-metrics/<name>   a subscription to clients' metrics
    /producer-ids/next               the first producer id that no broker has taken yet
    /log-ends/<topic>/<index>/<node> how far a log in doubt goes, under the lease of its broker
    /suspicions/<node>/<epoch>/<by>  who found a broker's process gone, under the witness's lease
    /security/<kind>/<name>          users, rules, keys, tokens, tenants, quotas; names are quoted
    /doors/<door>/<name>             what is kept for one door alone (SQS: queues, move tasks)

Functions named `..._entry` return a key and its value, ready to put.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote
from uuid import UUID

import msgspec

from goqueue.model.errors import MetadataCorrupt
from goqueue.model.layouts import Split
from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NodeId, PartitionIndex, TopicName
from goqueue.model.replication import Member, PartitionState

ROOT_PREFIX: Final = "/"
CLUSTER_ID_KEY: Final = "/cluster/id"
FEATURE_LEVEL_KEY: Final = "/cluster/feature-level"
CONTROLLER_KEY: Final = "/controller"
PRODUCER_IDS_KEY: Final = "/producer-ids/next"
NODES_PREFIX: Final = "/nodes/"
BROKERS_PREFIX: Final = "/brokers/"
TOPICS_PREFIX: Final = "/topics/"
TOPIC_WRITERS_PREFIX: Final = "/topic-writers/"
PARTITIONS_PREFIX: Final = "/partitions/"
BROKER_CONFIGS_PREFIX: Final = "/configs/brokers/"
DOORS_PREFIX: Final = "/doors/"
LOG_ENDS_PREFIX: Final = "/log-ends/"
SUSPICIONS_PREFIX: Final = "/suspicions/"
GROUP_CONFIGS_PREFIX: Final = "/configs/groups/"
CLIENT_METRICS_PREFIX: Final = "/configs/client-metrics/"
SECURITY_PREFIX: Final = "/security/"
_ALL_BROKERS: Final = "default"


# Of members that never registered: a node of one.
NO_BROKER_EPOCH: Final = 0
# Kafka's: a broker that restarts throws away less than this, and asks seldom.
PRODUCER_ID_BLOCK_SIZE: Final = 1_000

# msgspec has no error of its own for text that is not UTF-8.
_BAD_VALUE: Final = (msgspec.MsgspecError, UnicodeDecodeError)
# A start decodes one for each partition of the cluster.
_PARTITION_STATE: Final = msgspec.json.Decoder(PartitionState)

T = TypeVar("T")


class SecurityKind(Enum):
    """What is kept of access; the value is a part of the key."""

    USER = "users"
    RULE = "rules"
    KEY = "keys"
    TOKEN = "tokens"
    ENDED_SESSION = "ended_sessions"
    TENANT = "tenants"
    QUOTA = "quotas"


class Entry(NamedTuple):
    key: str
    value: bytes


class TopicValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`splits` is left out where there were none, as releases before them wrote it."""

    id: UUID
    partitions: int
    config: Mapping[str, str] = {}
    splits: tuple[Split, ...] = ()


class _PartitionOfOneNode(msgspec.Struct, frozen=True, kw_only=True):
    """How partitions were stored before several brokers could share one."""

    leader: NodeId
    leader_epoch: int
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]


class BrokerValue(msgspec.Struct, frozen=True, kw_only=True):
    """`registration` is what a broker of a cluster says of its folder."""

    host: str
    kafka_port: int
    http_port: int
    rack: str | None = None
    registration: Registration | None = None
    # Its ports speak TLS.
    has_tls: bool = False


class LogEndValue(msgspec.Struct, frozen=True, kw_only=True):
    """How far the log of a partition goes at a broker that has accepted `leader_epoch`."""

    node: NodeId
    broker_epoch: int
    leader_epoch: int
    last_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    first: int
    count: int


# --- keys ---------------------------------------------------------------------------------


def broker_key(node_id: NodeId) -> str:
    return f"{BROKERS_PREFIX}{node_id}"


def node_key(node_id: NodeId) -> str:
    return f"{NODES_PREFIX}{node_id}"


def topic_key(name: str) -> str:
    return f"{TOPICS_PREFIX}{name}"


def topic_writer_key(topic: str) -> str:
    return f"{TOPIC_WRITERS_PREFIX}{topic}"


def partition_key(topic: str, index: int) -> str:
    return f"{partitions_prefix(topic)}{index}"


def partitions_prefix(topic: str) -> str:
    """Above all partition keys of one topic; topic names have no slash."""
    return f"{PARTITIONS_PREFIX}{topic}/"


def log_ends_prefix(topic: str, index: int) -> str:
    """Above what brokers tell of their logs of one partition."""
    return f"{LOG_ENDS_PREFIX}{topic}/{index}/"


def suspicions_prefix(node_id: NodeId, broker_epoch: int) -> str:
    """Above what others say of one registration."""
    return f"{SUSPICIONS_PREFIX}{node_id}/{broker_epoch}/"


def suspicion_key(node_id: NodeId, broker_epoch: int, witness: NodeId) -> str:
    return f"{suspicions_prefix(node_id, broker_epoch)}{witness}"


def door_key(door: str, name: str) -> str:
    return f"{DOORS_PREFIX}{door}/{name}"


def broker_config_key(node_id: NodeId | None) -> str:
    return f"{BROKER_CONFIGS_PREFIX}{_ALL_BROKERS if node_id is None else node_id}"


def security_key(kind: SecurityKind, name: str) -> str:
    return f"{SECURITY_PREFIX}{kind.value}/{quote(name, safe='')}"


def group_config_key(group: str) -> str:
    return f"{GROUP_CONFIGS_PREFIX}{group}"


# --- entries ------------------------------------------------------------------------------


def cluster_id_entry(cluster_id: str) -> Entry:
    return Entry(CLUSTER_ID_KEY, msgspec.json.encode(cluster_id))


def feature_level_entry(level: int) -> Entry:
    return Entry(FEATURE_LEVEL_KEY, msgspec.json.encode(level))


def controller_entry(node_id: NodeId) -> Entry:
    return Entry(CONTROLLER_KEY, msgspec.json.encode(node_id))


def broker_entry(node_id: NodeId, value: BrokerValue) -> Entry:
    return Entry(broker_key(node_id), msgspec.json.encode(value))


def node_entry(node_id: NodeId, record: NodeRecord) -> Entry:
    return Entry(node_key(node_id), msgspec.json.encode(record))


def topic_entry(name: str, value: TopicValue) -> Entry:
    return Entry(topic_key(name), msgspec.json.encode(value))


def partition_entry(topic: str, index: int, state: PartitionState) -> Entry:
    return Entry(partition_key(topic, index), msgspec.json.encode(state))


def broker_config_entry(node_id: NodeId | None, config: Mapping[str, str]) -> Entry:
    return Entry(broker_config_key(node_id), msgspec.json.encode(config))


def group_config_entry(group: str, config: Mapping[str, str]) -> Entry:
    return Entry(group_config_key(group), msgspec.json.encode(config))


def client_metrics_entry(name: str, config: Mapping[str, str]) -> Entry:
    return Entry(f"{CLIENT_METRICS_PREFIX}{name}", msgspec.json.encode(config))


def security_entry(kind: SecurityKind, name: str, value: msgspec.Struct) -> Entry:
    return Entry(security_key(kind, name), msgspec.json.encode(value))


def log_end_entry(topic: str, index: int, value: LogEndValue) -> Entry:
    key = f"{log_ends_prefix(topic, index)}{value.node}"
    return Entry(key, msgspec.json.encode(value))


def with_splits(value: TopicValue, splits: tuple[Split, ...]) -> TopicValue:
    return msgspec.structs.replace(value, splits=splits)


def new_partition_entries(
    topic: str, first_index: int, states: Iterable[PartitionState]
) -> list[Entry]:
    """Partitions from `first_index` on."""
    return [partition_entry(topic, index, state) for index, state in enumerate(states, first_index)]


def take_producer_ids(current: bytes | None) -> tuple[ProducerIdBlock, Entry]:
    """The next free block, and the entry to put if the key is still as `current` was read."""
    first = 0 if current is None else decode_value(PRODUCER_IDS_KEY, current, int)
    block = ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE)
    return block, Entry(PRODUCER_IDS_KEY, msgspec.json.encode(first + block.count))


# --- parsing ------------------------------------------------------------------------------


class SingleKey(Enum):
    """Keys that there is one of."""

    CLUSTER_ID = CLUSTER_ID_KEY
    FEATURE_LEVEL = FEATURE_LEVEL_KEY
    CONTROLLER = CONTROLLER_KEY
    PRODUCER_IDS = PRODUCER_IDS_KEY


class BrokerKey(NamedTuple):
    node_id: NodeId


class NodeKey(NamedTuple):
    node_id: NodeId


class TopicKey(NamedTuple):
    name: TopicName


class PartitionKey(NamedTuple):
    topic: TopicName
    partition: PartitionIndex


class BrokerConfigKey(NamedTuple):
    node_id: NodeId | None


class GroupConfigKey(NamedTuple):
    group: str


class ClientMetricsKey(NamedTuple):
    name: str


class SecurityKey(NamedTuple):
    kind: SecurityKind
    name: str


class SuspicionKey(NamedTuple):
    """A broker under one of its registrations, and who found its process gone."""

    node_id: NodeId
    broker_epoch: int
    witness: NodeId


class DoorKey(NamedTuple):
    door: str
    name: str


MetadataKey = (
    SingleKey
    | NodeKey
    | BrokerKey
    | TopicKey
    | PartitionKey
    | BrokerConfigKey
    | GroupConfigKey
    | ClientMetricsKey
    | SecurityKey
    | SuspicionKey
    | DoorKey
)

_SINGLE_KEYS: Final = {single.value: single for single in SingleKey}


def _partition_key_of(rest: str) -> PartitionKey:
    topic, _, index = rest.rpartition("/")
    return PartitionKey(TopicName(topic), PartitionIndex(int(index)))


def _door_key_of(rest: str) -> DoorKey:
    door, _, name = rest.partition("/")
    return DoorKey(door, name)


def _security_key_of(rest: str) -> SecurityKey:
    kind, _, name = rest.partition("/")
    return SecurityKey(SecurityKind(kind), unquote(name))


def _suspicion_key_of(rest: str) -> SuspicionKey:
    node_id, broker_epoch, witness = map(int, rest.split("/"))
    return SuspicionKey(NodeId(node_id), broker_epoch, NodeId(witness))


def _broker_config_key_of(rest: str) -> BrokerConfigKey:
    return BrokerConfigKey(None if rest == _ALL_BROKERS else NodeId(int(rest)))


_KEYS_UNDER: Final[tuple[tuple[str, Callable[[str], MetadataKey]], ...]] = (
    (PARTITIONS_PREFIX, _partition_key_of),
    (TOPICS_PREFIX, lambda rest: TopicKey(TopicName(rest))),
    (NODES_PREFIX, lambda rest: NodeKey(NodeId(int(rest)))),
    (BROKERS_PREFIX, lambda rest: BrokerKey(NodeId(int(rest)))),
    (BROKER_CONFIGS_PREFIX, _broker_config_key_of),
    (GROUP_CONFIGS_PREFIX, GroupConfigKey),
    (CLIENT_METRICS_PREFIX, ClientMetricsKey),
    (SECURITY_PREFIX, _security_key_of),
    (SUSPICIONS_PREFIX, _suspicion_key_of),
    (DOORS_PREFIX, _door_key_of),
)


def parse_key(key: str) -> MetadataKey | None:
    """What a key is about; None for keys of a kind not known here."""
    if single := _SINGLE_KEYS.get(key):
        return single
    for prefix, parse in _KEYS_UNDER:
        if key.startswith(prefix):
            try:
                return parse(key[len(prefix) :])
            except ValueError as error:
                raise MetadataCorrupt(f"metadata key {key!r} does not end in a number") from error
    return None


def decode_value(key: str, value: bytes, value_type: type[T]) -> T:
    try:
        return msgspec.json.decode(value, type=value_type)
    except _BAD_VALUE as error:
        raise _bad_value(key, error) from error


def decode_texts(key: str, value: bytes | None) -> dict[str, str]:
    """Settings; none where there is no key."""
    return {} if value is None else decode_value(key, value, dict[str, str])


def _bad_value(key: str, error: Exception) -> MetadataCorrupt:
    return MetadataCorrupt(f"metadata key {key!r} has a bad value: {error}")


def decode_partition(key: str, value: bytes) -> PartitionState:
    """A partition as it is stored today, or as a node of one stored it earlier."""
    try:
        return _PARTITION_STATE.decode(value)
    except _BAD_VALUE as error:
        try:
            earlier = msgspec.json.decode(value, type=_PartitionOfOneNode)
        except _BAD_VALUE:
            raise _bad_value(key, error) from error
    return PartitionState(
        leader=earlier.leader,
        leader_epoch=earlier.leader_epoch,
        replicas=earlier.replicas,
        in_sync=tuple(Member(node, NO_BROKER_EPOCH) for node in earlier.isr),
    )
