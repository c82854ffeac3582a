"""Settings of a broker that is one of several, and where their metadata is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from goqueue.model.digits import number_in
from goqueue.model.errors import InvalidConfig
from goqueue.model.settings import INT32_MAX, setting

_SCHEME = "etcd://"
_DEFAULT_PORT = 2379


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """Of a broker."""

    cluster: str = setting(
        "",
        doc="Where the brokers of a cluster keep their metadata: etcd://host:port,host:port "
        "with all members of etcd, and /name behind them where clusters share one. "
        "Empty is a node of one.",
    )
    # More than this many loops on one machine are better as several machines.
    workers: int = setting(
        1,
        minimum=1,
        maximum=64,
        doc="Processes that share the partitions, for machines with several cores: each is a "
        "broker with a Kafka port of its own, kafka.port and those after it. HTTP and SQS have "
        "one port for all.",
    )
    cluster_etcd_user: str = setting(
        "",
        doc="User to log in to etcd with; empty where it asks for none.",
    )
    # Settings are shown to whoever may describe the broker; a password is not one of them.
    cluster_etcd_password_file: str = setting(
        "",
        doc="File with the password of cluster.etcd.user.",
    )
    cluster_etcd_ca_file: str = setting(
        "",
        doc="Certificates (PEM) that etcd's is signed by. With it, etcd is spoken to over TLS.",
    )
    cluster_etcd_certificate_file: str = setting(
        "",
        doc="This broker's certificate (PEM) where etcd asks its clients for one.",
    )
    cluster_etcd_key_file: str = setting(
        "",
        doc="Key (PEM) of cluster.etcd.certificate.file.",
    )
    broker_rack: str = setting(
        "",
        doc="Where this broker stands: replicas of a partition are spread over racks.",
    )
    cordoned_log_dirs: tuple[str, ...] = setting(
        (),
        doc="With * or the path of data.dir this broker gets no new replicas, and keeps those that "
        "it has (KIP-1066). Can be changed at run time.",
    )
    # Kafka's 9,000 is for sessions that every broker of hundreds renews at one controller. etcd
    # grants whole seconds, and no less than one and a half of its election time-outs.
    broker_session_timeout_ms: int = setting(
        3_000,
        minimum=1_000,
        maximum=600_000,
        doc="A broker that is silent for this long counts as dead. One whose process ended is "
        "noticed at once.",
    )
    loop_stall_max_ms: int = setting(
        2_000,
        minimum=100,
        maximum=600_000,
        doc="A broker that answers nobody for this long stops renewing its session.",
    )
    # Clients notice a leader that moved after some 20 ms; a store that is away is not waited for.
    controlled_shutdown_timeout_ms: int = setting(
        3_000,
        minimum=0,
        maximum=INT32_MAX,
        doc="How long a broker that is stopped waits for others to take over what it leads.",
    )
    auto_leader_rebalance_enable: bool = setting(
        True,
        doc="Give partitions back to the first of their replicas when it is in sync again.",
    )
    leader_imbalance_check_interval_seconds: int = setting(
        300,
        minimum=1,
        maximum=INT32_MAX,
        doc="How often leaders that are not the first of their replicas are looked for.",
    )


CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
_ALL_DIRECTORIES: Final = "*"


def check_cordoned(items: Sequence[str], data_dir: Path | None) -> None:
    """`data_dir` is None of another broker: its folder is known to itself alone."""
    for item in items:
        if item == _ALL_DIRECTORIES:
            continue
        if data_dir is None:
            raise InvalidConfig(
                f"{CORDONED_LOG_DIRS}: only the broker itself knows its directories; "
                f"ask that one, or give {_ALL_DIRECTORIES}"
            )
        if Path(item).absolute() != data_dir.absolute():
            raise InvalidConfig(
                f"{CORDONED_LOG_DIRS}: {item!r} is neither {_ALL_DIRECTORIES} nor data.dir, "
                f"which is {str(data_dir)!r}"
            )


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """`prefix` stands before all keys, so that clusters can share an etcd."""

    endpoints: tuple[str, ...]
    prefix: str = ""


def parse_cluster(text: str) -> ClusterAddress:
    """`etcd://host:port,host:port[/name]`."""
    if not text.startswith(_SCHEME):
        raise InvalidConfig(
            f"cluster: {text!r} does not begin with {_SCHEME}; give etcd://host:port,host:port"
        )
    hosts, slash, name = text.removeprefix(_SCHEME).partition("/")
    endpoints = tuple(_endpoint(part.strip()) for part in hosts.split(","))
    return ClusterAddress(endpoints, f"/{name.strip('/')}" if slash and name.strip("/") else "")


def _endpoint(part: str) -> str:
    host, colon, port = part.rpartition(":")
    # An IPv6 address without a port ends in its bracket.
    if not colon or part.endswith("]"):
        host, port = part, str(_DEFAULT_PORT)
    if not host or not 0 < (number_in(port) or 0) < 65_536:
        raise InvalidConfig(f"cluster: {part!r} is not host:port")
    return f"{host}:{port}"
