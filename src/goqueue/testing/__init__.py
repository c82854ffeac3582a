"""For tests of programs that talk to GoQueue, and for GoQueue's own.

    from goqueue.testing import EmbeddedBroker

    with EmbeddedBroker(num_partitions=1) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

`EmbeddedBroker` is a real broker in a thread of this process with its own event loop, data folder
and ports; `ServerProcess` is one in a process of its own that can be killed. With pytest, the
fixtures `goqueue_broker` and `goqueue_topic` are there as soon as the package is installed.

Everything is imported on first use: the pytest plugin is loaded by every pytest run on a machine
where GoQueue is installed, and must cost it nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.testing.embedded_broker import EmbeddedBroker
    from goqueue.testing.server_process import ServerProcess

__all__ = ["EmbeddedBroker", "ServerProcess"]


def __getattr__(name: str) -> object:
    if name == "EmbeddedBroker":
        from goqueue.testing.embedded_broker import EmbeddedBroker

        return EmbeddedBroker
    if name == "ServerProcess":
        from goqueue.testing.server_process import ServerProcess

        return ServerProcess
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
