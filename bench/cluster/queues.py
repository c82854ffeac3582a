"""What it costs to read a queue at a broker that does not lead it.

Messages are received and acknowledged over HTTP at the leader and at a broker that leads nothing,
in turns, so that whatever else the machine does hits both alike. Then one message at a time, for
readers that wait: the time from its publication to its arrival.

    python -m bench.cluster.queues --rounds 500 --waits 200
"""

import argparse
import json
import statistics
import threading
import time
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlsplit

from goqueue.testing import GoQueueCluster

TOPIC: Final = "queued"
GROUP: Final = "readers"
BATCH: Final = 10
WARM_UP: Final = 20
# Long enough for a reader to stand in line.
SETTLE_S: Final = 0.02


class Reader:
    def __init__(self, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
        self.receives: list[float] = []
        self.acks: list[float] = []
        self.arrivals: list[float] = []

    def post(self, path: str, body: Any) -> Any:
        headers = {"content-type": "application/json"}
        self._connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"status {answer.status}: {content[:200]!r}")
        return json.loads(content)

    def receive(self, timeout: int = 0) -> list[str]:
        body = {"topic": TOPIC, "max": BATCH, "timeout": timeout}
        found = self.post(f"/groups/{GROUP}/receive", body)["messages"]
        return [message["receipt"] for message in found]

    def ack(self, receipts: list[str]) -> None:
        self.post("/messages/ack", {"group": GROUP, "receipts": receipts})

    def turn(self) -> None:
        started = time.perf_counter()
        receipts = self.receive()
        received = time.perf_counter()
        if len(receipts) != BATCH:
            raise SystemExit(f"{len(receipts)} messages in place of {BATCH}")
        self.ack(receipts)
        self.receives.append(received - started)
        self.acks.append(time.perf_counter() - received)

    def wait(self, publisher: "Reader") -> None:
        arrived: list[float] = []
        receipts: list[str] = []

        def poll() -> None:
            receipts.extend(self.receive(30_000))
            arrived.append(time.perf_counter())

        waiting = threading.Thread(target=poll)
        waiting.start()
        time.sleep(SETTLE_S)
        started = time.perf_counter()
        publisher.publish(1)
        waiting.join()
        self.arrivals.append(arrived[0] - started)
        self.ack(receipts)

    def publish(self, count: int) -> None:
        messages = [{"value": "x" * 100, "partition": 0} for _ in range(count)]
        self.post(f"/topics/{TOPIC}/messages", {"messages": messages})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=500, help=f"of {BATCH} messages, at each")
    parser.add_argument("--waits", type=int, default=200, help="single messages, at each")
    given = parser.parse_args()
    with GoQueueCluster(cordoned=1) as cluster:
        there = Reader(cluster.server(cluster.cordoned_ids[0]).http_url)
        there.post("/topics", {"name": TOPIC, "partitions": 1})
        here = Reader(cluster.server(cluster.leader(TOPIC) or 1).http_url)
        publisher = Reader(cluster.server(cluster.leader(TOPIC) or 1).http_url)
        for _ in range(2 * (WARM_UP + given.rounds) * BATCH // 100 + 1):
            publisher.publish(100)
        for _ in range(WARM_UP + given.rounds):
            here.turn()
            there.turn()
        while rest := here.receive():
            here.ack(rest)
        for _ in range(WARM_UP + given.waits):
            here.wait(publisher)
            there.wait(publisher)
    print(f"HTTP, messages of 100 B, RF 3, fsync.policy=interval; {BATCH} messages a request")
    for name, each in (("at the leader", here), ("at a broker that leads nothing", there)):
        print(
            f"{name}: receive {shown(each.receives)}, ack {shown(each.acks)}; "
            f"to a reader that waits {shown(each.arrivals)}"
        )


def shown(seconds: list[float]) -> str:
    measured = seconds[WARM_UP:]
    p99 = statistics.quantiles(measured, n=100)[98]
    return f"p50 {statistics.median(measured) * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms"


if __name__ == "__main__":
    main()
