"""A backup of gigabytes under load, restored, and compared byte by byte.

`python -m tests.crash.backups --gigabytes 5` fills a broker, makes a backup of it while producers,
transactions, consumers, queue workers and delays go on, and fetches every batch of every partition
that the backup has, as it is stored, from the broker that was backed up and from the one that was
restored. Their checksums must be the same, and nothing that clients were told before the backup
began may be missing. With `--cluster` there are three brokers, and the restored one begins a new
cluster with two others.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from confluent_kafka import Producer

from goqueue.backup.catalogue import Catalogue
from goqueue.backup.manifest import Manifest
from goqueue.backup.stores import open_store
from goqueue.client.http_api import HttpApi
from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import LogRange
from goqueue.client.log_reader import read_stored
from goqueue.testing import GoQueueCluster, ServerProcess
from goqueue.testing.etcd_process import EtcdProcess
from tests.busy_machine import stretched
from tests.crash.backup_load import LOAD, PARTITIONS, Load

OPTIONS = (
    *("--set", "offsets.topic.num.partitions=4"),
    *("--set", "transaction.state.log.num.partitions=4"),
    # The bytes are compared: nothing may be deleted meanwhile, nor compacted.
    *("--set", "retention.check.interval.ms=86400000"),
    *("--set", "topic.queue.visibility.timeout.ms=5000"),
)
# Topics of users: their logs stay as they are. Those of the broker are compacted.
COMPARED_PREFIX = "__"
LOAD_MEGABYTES_A_SECOND = 10.0
SECONDS_BEFORE = 5.0
# Other brokers than those of the original cluster.
NEW_NODES = (7, 8, 9)
IN_SYNC_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Address:
    bootstrap: str
    http_url: str


@contextmanager
def original(folder: Path, *, cluster: bool) -> Iterator[Address]:
    if cluster:
        with GoQueueCluster(*OPTIONS, folder=folder) as running:
            yield Address(running.bootstrap_servers, running.http_urls[-1])
    else:
        with ServerProcess(folder, *OPTIONS) as server:
            yield Address(server.bootstrap_servers, server.http_url)


@contextmanager
def restored(folder: Path, *, cluster: bool) -> Iterator[Address]:
    if not cluster:
        with ServerProcess(folder, *OPTIONS) as server:
            yield Address(server.bootstrap_servers, server.http_url)
        return
    etcd = EtcdProcess(folder.with_name("new-etcd"))
    etcd.start()
    where = ("--cluster", f"etcd://{etcd.endpoint}")
    first, *others = NEW_NODES
    everyone = ",".join(map(str, NEW_NODES))
    node = ("--node-id", str(first), *where)
    try:
        goqueue("cluster", "adopt", "--data-dir", str(folder), *node, "--brokers", everyone)
        with ExitStack() as running:
            server = running.enter_context(ServerProcess(folder, *node, *OPTIONS))
            for other in others:
                own = folder.with_name(f"new-{other}")
                number = ("--node-id", str(other), *where)
                last = running.enter_context(ServerProcess(own, *number, *OPTIONS))
            until_in_sync(server.http_url)
            yield Address(server.bootstrap_servers, last.http_url)
    finally:
        etcd.stop()


def until_in_sync(http_url: str) -> None:
    """The others have copied everything."""
    deadline = time.monotonic() + stretched(IN_SYNC_SECONDS)
    while True:
        state = HttpApi(http_url).get("cluster", "state")
        counts = state["partitions"]
        if len(state["nodes"]) == len(NEW_NODES) and not counts["underReplicated"]:
            return
        assert time.monotonic() < deadline, state
        time.sleep(0.2)


def goqueue(*arguments: str) -> float:
    """Run the command as a process; returns the seconds that it took."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "goqueue", *arguments], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return time.monotonic() - began


def fill(bootstrap: str, gigabytes: float) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    filling = random.Random(1).randbytes(100_000)
    left = round(gigabytes * 1e9)
    number = 0
    while left > 0:
        value = b"%020d" % number + filling
        try:
            producer.produce(LOAD, value, partition=number % PARTITIONS)
        except BufferError:
            producer.poll(0.1)
            continue
        number += 1
        left -= len(value)
        producer.poll(0)
    assert producer.flush(300) == 0


def digests(bootstrap: str, manifest: Manifest) -> dict[str, str]:
    """Of each partition, every byte that the backup should have: fetched, as it is stored."""
    found = {}
    with LogCluster(bootstrap) as cluster:
        for topic in manifest.topics:
            if topic.name.startswith(COMPARED_PREFIX):
                continue
            for index, partition in enumerate(topic.partitions):
                digest = hashlib.sha256()
                size = 0
                if partition.start < partition.end:
                    wanted = LogRange(
                        topic=topic.name,
                        topic_id=topic.id,
                        partition=index,
                        start=partition.start,
                        end=partition.end,
                    )
                    for fetched in read_stored(cluster, wanted):
                        content = memoryview(fetched.content)
                        for position, header in fetched.batches:
                            digest.update(content[position : position + header.size_bytes])
                            size += header.size_bytes
                found[f"{topic.name}-{index}"] = f"{size} {digest.hexdigest()}"
    return found


def run(folder: Path, *, gigabytes: float, cluster: bool, seed: int, rate: str | None) -> Any:
    store = folder / "store"
    figures: dict[str, Any] = {"gigabytes": gigabytes, "brokers": 3 if cluster else 1}
    with original(folder / "data", cluster=cluster) as address:
        load = Load(
            address.bootstrap,
            address.http_url,
            seed=seed,
            megabytes_a_second=LOAD_MEGABYTES_A_SECOND,
        )
        load.make_topics(3 if cluster else 1)
        began = time.monotonic()
        fill(address.bootstrap, gigabytes)
        figures["fill_seconds"] = round(time.monotonic() - began, 1)
        load.start()
        load.note_start()
        time.sleep(SECONDS_BEFORE)
        figures["publish_ms_before"] = _latencies(load)
        load.note_start()
        bound = () if rate is None else ("--rate", rate)
        where = ("--bootstrap", address.bootstrap)
        took = goqueue("backup", "create", str(store), *where, *bound)
        figures["publish_ms_during"] = _latencies(load)
        figures["create_seconds"] = round(took, 1)
        figures["create_again_seconds"] = round(goqueue("backup", "create", str(store), *where), 1)
        load.stop()
        catalogue = Catalogue(open_store(str(store)))
        first, second = catalogue.manifests()
        figures["bytes"], figures["new_bytes_again"] = first.size_bytes, second.new_bytes
        was = digests(address.bootstrap, first)
    figures["verify_seconds"] = round(goqueue("backup", "verify", str(store), first.id), 1)
    target = folder / "restored"
    took = goqueue("backup", "restore", str(store), first.id, "--data-dir", str(target))
    figures["restore_seconds"] = round(took, 1)
    began = time.monotonic()
    with restored(target, cluster=cluster) as address:
        figures["start_seconds"] = round(time.monotonic() - began, 1)
        found = digests(address.bootstrap, first)
        assert found == was, "the restored logs are not what they were"
        ends = {
            (topic.name, index): partition.end
            for topic in first.topics
            for index, partition in enumerate(topic.partitions)
        }
        load.check(address.bootstrap, address.http_url, ends)
    figures["compared"] = {place: int(each.partition(" ")[0]) for place, each in was.items()}
    return figures


def _latencies(load: Load) -> dict[str, float]:
    cuts = quantiles(load.latencies, n=1000)
    return {name: round(cuts[at] * 1000, 1) for name, at in (("p50", 499), ("p99", 989))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--rate", help="for `goqueue backup create`")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="goqueue-backups-") as folder:
        figures = run(
            Path(folder),
            gigabytes=given.gigabytes,
            cluster=given.cluster,
            seed=given.seed,
            rate=given.rate,
        )
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
