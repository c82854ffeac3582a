"""`bench.cluster.scale` at its smallest: what it counts is right, so its larger figures mean it."""

import asyncio
from pathlib import Path

from bench.cluster.scale import hosting, metadata
from bench.cluster.scale.arithmetic import (
    connections_per_broker,
    idle_fetches_per_s,
    joining_transactions,
    keep_alives_per_s,
)
from bench.cluster.scale.hosting import HostingFigures
from bench.cluster.scale.imagined import Size, entries
from bench.cluster.scale.real_etcd import EtcdFigures
from bench.cluster.scale.report import SECTIONS, Case, tables, unit_table
from goqueue.state.metadata_image import MetadataImage

SIZE = Size(brokers=4, partitions=400)


def test_metadata_of_an_imagined_cluster() -> None:
    found = asyncio.run(metadata.measure(SIZE))
    # A key for each partition, topic, registration and node, and three that there is one of.
    assert found.keys == 400 + 4 + 2 * 4 + 3
    assert found.key_bytes + found.value_bytes < found.read_bytes
    # Three of four brokers have each partition, and one of them leads it.
    assert (found.changes, found.led, found.misplaced) == (300, 100, 100)
    # 120 comparisons each, of which one is the controller's right and some are registrations.
    assert found.transactions == 3
    assert found.largest_transaction_bytes <= found.transaction_bytes
    assert found.watch_bytes < found.transaction_bytes
    assert found.topic_answer_bytes < found.answer_bytes
    assert found.load_s > 0


def test_logs_of_an_imagined_broker(tmp_path: Path) -> None:
    found = asyncio.run(hosting.measure(tmp_path / "data", 12))
    assert found.logs == 12
    assert found.files >= 2
    assert found.disk_bytes > 0
    assert found.clean_open_s > 0
    assert found.killed_open_s > 0


def test_replicas_are_spread_evenly() -> None:
    image = MetadataImage.load(entries(SIZE), revision=1)
    replicas = [p.replicas for topic in image.topics.values() for p in topic.partitions]
    assert all(len(set(each)) == SIZE.replicas for each in replicas)
    for node in SIZE.nodes:
        assert sum(node in each for each in replicas) == SIZE.replicas_per_broker == 300
        assert sum(node == each[0] for each in replicas) == 100


def test_what_follows_from_the_size() -> None:
    hundred = Size(brokers=100, partitions=1_000_000)
    assert hundred.replicas_per_broker == 30_000
    assert connections_per_broker(hundred) == 4 * 99
    assert idle_fetches_per_s(hundred) == 198
    assert keep_alives_per_s(hundred) == 100
    # 304 partitions for each of 99 leaders, 50 in a transaction.
    assert joining_transactions(hundred) == 99 * 7


def test_every_figure_is_told() -> None:
    log, etcd = HostingFigures(logs=5), EtcdFigures(keys=7)
    case = Case(SIZE, metadata.MetadataFigures(keys=1), log, etcd)
    text = tables([case]) + unit_table(log, etcd)
    for _, rows in SECTIONS:
        for row in rows:
            assert f"| {row.label} | " in text
