"""For tests of programs that talk to GoQueue, and for GoQueue's own.

    from goqueue.testing import EmbeddedBroker

    with EmbeddedBroker(num_partitions=1) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

`EmbeddedBroker` is a real broker in a thread of this process with its own event loop, data folder
and ports; `ServerProcess` is one in a process of its own that can be killed, `GoQueueCluster` are
several with an etcd, which can be killed, paused and cut off from each other. `ClusterAsServer` is
a cluster that is used like one server, at a broker that leads nothing. With pytest, the fixtures
`goqueue_broker`, `goqueue_topic` and `goqueue_cluster` are there as soon as the package is
installed; `pytest --goqueue-cluster` puts such a cluster behind the first two.
With `security=True` each of them speaks TLS and knows an administrator: `broker.client_config()` is
for confluent-kafka, `http_client_kwargs()` for httpx, `sqs_client_kwargs()` for boto3, and
`create_user(name, password)` makes others. The fixture `goqueue_secured_broker` is such a broker.
`FaultyDisk` fails on demand what the broker asks of its disk.

Everything is imported on first use: the pytest plugin is loaded by every pytest run on a machine
where GoQueue is installed, and must cost it nothing.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from goqueue.testing.cluster_as_server import ClusterAsServer
    from goqueue.testing.embedded_broker import EmbeddedBroker
    from goqueue.testing.faulty_disk import FaultyDisk
    from goqueue.testing.server_cluster import GoQueueCluster
    from goqueue.testing.server_process import ServerProcess

__all__ = ["ClusterAsServer", "EmbeddedBroker", "FaultyDisk", "GoQueueCluster", "ServerProcess"]

_MODULES: Final = {
    "ClusterAsServer": "goqueue.testing.cluster_as_server",
    "EmbeddedBroker": "goqueue.testing.embedded_broker",
    "FaultyDisk": "goqueue.testing.faulty_disk",
    "GoQueueCluster": "goqueue.testing.server_cluster",
    "ServerProcess": "goqueue.testing.server_process",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
