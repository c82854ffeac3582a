"""What it costs to publish at a broker that does not lead the partition.

The same message is published over HTTP at the leader and at another broker in turns, so that
whatever else the machine does hits both alike.

    python -m bench.cluster.forwarding --messages 4000
"""

import argparse
import json
import statistics
import time
from http.client import HTTPConnection
from typing import Final
from urllib.parse import urlsplit

from goqueue.testing import GoQueueCluster

TOPIC: Final = "forwarded"
BODY: Final = json.dumps({"value": "x" * 100, "partition": 0}).encode()
WARM_UP: Final = 200


class Publisher:
    def __init__(self, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
        self.seconds: list[float] = []

    def publish(self) -> None:
        started = time.perf_counter()
        self.post(f"/topics/{TOPIC}/messages", BODY)
        self.seconds.append(time.perf_counter() - started)

    def post(self, path: str, body: bytes) -> None:
        self._connection.request("POST", path, body, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status not in (200, 201):
            raise SystemExit(f"status {answer.status}: {content[:200]!r}")

    def quantile_ms(self, part: float) -> float:
        return statistics.quantiles(self.seconds[WARM_UP:], n=1000)[int(part * 1000) - 1] * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=4000, help="at each of the two")
    given = parser.parse_args()
    with GoQueueCluster() as cluster:
        body = json.dumps({"name": TOPIC, "partitions": 1}).encode()
        Publisher(cluster.http_urls[0]).post("/topics", body)
        cluster.wait_complete()
        leader = cluster.leader(TOPIC) or 1
        other = next(node for node in cluster.node_ids if node != leader)
        here, there = (Publisher(cluster.server(node).http_url) for node in (leader, other))
        for _ in range(WARM_UP + given.messages):
            here.publish()
            there.publish()
    print("HTTP publish of 100 B, RF 3, answered when committed; fsync.policy=interval")
    for name, each in (("at the leader", here), ("elsewhere", there)):
        figures = " ".join(f"p{p * 100:g} {each.quantile_ms(p):.2f}" for p in (0.5, 0.9, 0.99))
        print(f"{name:14} {figures} ms")
    print(f"ratio of p99: {there.quantile_ms(0.99) / here.quantile_ms(0.99):.2f}")


if __name__ == "__main__":
    main()
