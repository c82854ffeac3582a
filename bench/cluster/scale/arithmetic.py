"""What follows from the size of a cluster and from what one of each costs, without measuring."""

from math import ceil
from typing import Final

from bench.cluster.scale.hosting import HostingFigures
from bench.cluster.scale.imagined import Size
from bench.cluster.scale.metadata import MetadataFigures
from bench.cluster.scale.real_etcd import EtcdFigures
from goqueue.broker.node import RECONCILE_S
from goqueue.broker.replication.proposals import TOGETHER_MAX
from goqueue.broker.topics.following import reconciling_pause_s
from goqueue.metadata.lease_renewal import RENEWALS_A_LEASE
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.companions import KINDS

_CONFIG: Final = BrokerConfig()
# A partition itself, one companion for its queues and one for its delays (decision 14).
LOGS_WITH_COMPANIONS: Final = 1 + len(KINDS)
# An idle broker, as `bench` measures it.
IDLE_BROKER_BYTES: Final = 70_000_000


def connections_per_broker(size: Size) -> int:
    """To every other broker one to fetch and one to notice its end; as many come from there."""
    return 4 * (size.brokers - 1)


def idle_fetches_per_s(size: Size) -> float:
    """That a broker sends while nothing is written; it answers as many."""
    return (size.brokers - 1) * 1_000 / _CONFIG.replica_fetch_wait_max_ms


def keep_alives_per_s(size: Size) -> float:
    """That etcd answers, without a write."""
    return size.brokers * RENEWALS_A_LEASE * 1_000 / _CONFIG.broker_session_timeout_ms


def reconciling_pause(metadata: MetadataFigures) -> float:
    """Seconds between one reading of everything and the next."""
    return reconciling_pause_s(RECONCILE_S, metadata.keys)


def reconciling_bytes_per_s(size: Size, metadata: MetadataFigures) -> float:
    """That etcd sends to all brokers, which read everything again and again."""
    return size.brokers * metadata.read_bytes / reconciling_pause(metadata)


def told_bytes(size: Size, metadata: MetadataFigures) -> int:
    """That etcd sends when one broker dies: every broker watches every key."""
    return (size.brokers - 1) * metadata.watch_bytes


def etcd_s(size: Size, metadata: MetadataFigures, etcd: EtcdFigures) -> float:
    """Processor seconds of etcd for the elections when one broker dies, if one member does all."""
    each = etcd.transaction_s + (size.brokers - 1) * etcd.watcher_s
    return metadata.transactions * each


def etcd_reading_share(size: Size, metadata: MetadataFigures, etcd: EtcdFigures) -> float:
    """Cores of etcd that all brokers keep busy by that."""
    return size.brokers * metadata.keys * etcd.read_s / reconciling_pause(metadata)


def joining_transactions(size: Size) -> int:
    """When a broker is back, each leader lets it join where it caught up."""
    others = size.brokers - 1
    return others * ceil(size.replicas_per_broker / others / TOGETHER_MAX)


def rolling_restart_bytes(size: Size, metadata: MetadataFigures) -> float:
    """That etcd's history grows by when all brokers are restarted in turn: each leaves all its
    in-sync sets, joins them again, and gets back what it led."""
    each = (metadata.key_bytes + metadata.value_bytes) / metadata.keys
    writes = 2 * size.partitions * size.replicas + size.partitions
    return writes * each


def memory_bytes(size: Size, metadata: MetadataFigures, hosting: HostingFigures) -> float:
    """Of a broker that stands still."""
    logs = size.replicas_per_broker * hosting.memory_bytes
    return IDLE_BROKER_BYTES + metadata.image_bytes + logs


def start_s(size: Size, metadata: MetadataFigures, open_s: float, *, logs_each: int = 1) -> float:
    """Until a broker has its metadata and its logs; `open_s` is of one log."""
    return metadata.load_s + size.replicas_per_broker * logs_each * open_s


def files(size: Size, hosting: HostingFigures, *, logs_each: int = 1) -> float:
    return size.replicas_per_broker * logs_each * hosting.files


def failover_s(size: Size, metadata: MetadataFigures, etcd: EtcdFigures) -> float:
    """Processor seconds from the end of a registration until every leader is elected and known: of
    the controller, of etcd and of a broker that hears of it, one after the other."""
    return (
        metadata.broker_gone_s
        + metadata.view_s
        + metadata.plan_s
        + metadata.act_s
        + etcd_s(size, metadata, etcd)
        + metadata.elections_applied_s
    )
