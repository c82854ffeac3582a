"""A cluster on this machine to look at: brokers and an etcd, until Ctrl-C.

python -m goqueue.testing.local_cluster --brokers 3 --folder data/cluster
"""

import argparse
import signal
import sys
import threading
from pathlib import Path

from goqueue.model.errors import GoQueueError
from goqueue.testing.server_cluster import GoQueueCluster


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("data/cluster"))
    parser.add_argument("--kafka-port", type=int, default=9092, help="of broker 1; others follow")
    parser.add_argument("--http-port", type=int, default=8080, help="of broker 1; others follow")
    parser.add_argument("--etcd-port", type=int, default=2379)
    chosen = parser.parse_args()
    cluster = GoQueueCluster(
        brokers=chosen.brokers,
        folder=chosen.folder,
        first_kafka_port=chosen.kafka_port,
        first_http_port=chosen.http_port,
        etcd_port=chosen.etcd_port,
    )
    ended = threading.Event()
    try:
        cluster.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        _show(cluster, chosen.folder)
        ended.wait()
        print("Stopping.", flush=True)
        for node in cluster.running:
            cluster.stop(node)
        cluster.etcd.stop()
    except GoQueueError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        cluster.close()
    return 0


def _show(cluster: GoQueueCluster, folder: Path) -> None:
    print("The cluster is ready.")
    for node, url in zip(cluster.node_ids, cluster.http_urls, strict=True):
        server = cluster.server(node)
        print(f"  broker {node}  Kafka {server.bootstrap_servers}  HTTP {url}  pid {server.pid}")
    print(f"  etcd      {cluster.etcd.endpoint}  pid {cluster.etcd.pid}")
    print(f"  data      {folder}")
    print("Kill one of them and see that the others go on. Stop all with Ctrl-C.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
