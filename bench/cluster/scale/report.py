"""The figures of some sizes beside each other, as Markdown."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from bench.cluster.scale import arithmetic
from bench.cluster.scale.hosting import HostingFigures
from bench.cluster.scale.imagined import Size
from bench.cluster.scale.metadata import MetadataFigures
from bench.cluster.scale.real_etcd import EtcdFigures


class Sized(msgspec.Struct):
    """What was measured for one size."""

    brokers: int
    partitions: int
    metadata: MetadataFigures

    @property
    def size(self) -> Size:
        return Size(self.brokers, self.partitions)


class Case(NamedTuple):
    """`log` and `etcd` are what one log and one key cost, whatever the size."""

    size: Size
    metadata: MetadataFigures
    log: HostingFigures
    etcd: EtcdFigures


class Row(NamedTuple):
    label: str
    of: Callable[[Case], str]


def _mere(seconds: Callable[[MetadataFigures], float]) -> Callable[[Case], str]:
    return lambda case: _seconds(seconds(case.metadata))


STORED = (
    Row("topics of 100 partitions", lambda c: f"{c.size.topics:,}"),
    Row("keys", lambda c: f"{c.metadata.keys:,}"),
    Row("bytes of keys and values", lambda c: _bytes(_live_bytes(c.metadata))),
    Row("etcd's file with them", lambda c: _bytes(c.metadata.keys * c.etcd.disk_bytes)),
    Row("etcd's memory for them", lambda c: _bytes(c.metadata.keys * c.etcd.memory_bytes)),
    Row(
        "a rolling restart adds to its history",
        lambda c: _bytes(arithmetic.rolling_restart_bytes(c.size, c.metadata)),
    ),
    Row("lease renewals", lambda c: f"{arithmetic.keep_alives_per_s(c.size):,.0f}/s"),
    Row(
        "brokers read everything once in",
        lambda c: _seconds(arithmetic.reconciling_pause(c.metadata)),
    ),
    Row(
        "sent to all of them for that",
        lambda c: f"{_bytes(arithmetic.reconciling_bytes_per_s(c.size, c.metadata))}/s",
    ),
    Row(
        "cores that this takes",
        lambda c: f"{arithmetic.etcd_reading_share(c.size, c.metadata, c.etcd):.2g}",
    ),
)

EACH_BROKER = (
    Row("bytes read at a start", lambda c: _bytes(c.metadata.read_bytes)),
    Row("loading the image", _mere(lambda m: m.load_s)),
    Row("memory of it, with the revisions of keys", lambda c: _bytes(c.metadata.image_bytes)),
    Row("the most while all is read again", lambda c: _bytes(c.metadata.load_most_bytes)),
    Row("reading and comparing everything again", _mere(lambda m: m.reconcile_s)),
    Row("of it, in one go", _mere(lambda m: m.reconcile_stall_s)),
    Row("a full collection of garbage, image alone", _mere(lambda m: m.collection_s)),
    Row("one partition changes, in one go", _mere(lambda m: m.one_change_s)),
    Row("a broker is gone, in one go", _mere(lambda m: m.broker_gone_s)),
    Row("a broker is back, in one go", _mere(lambda m: m.broker_back_s)),
    Row("placing a topic, in a thread", _mere(lambda m: m.place_s)),
    Row("whether there is room for it, in one go", _mere(lambda m: m.check_room_s)),
    Row("`goqueue cluster status`", _mere(lambda m: m.status_s)),
)

DEATH = (
    Row(
        "partitions to change; of them, to elect for",
        lambda c: f"{c.metadata.changes:,}; {c.metadata.led:,}",
    ),
    Row("the controller's view, in a thread", _mere(lambda m: m.view_s)),
    Row("its plan, in a thread", _mere(lambda m: m.plan_s)),
    Row("making the transactions", _mere(lambda m: m.act_s)),
    Row("transactions", lambda c: f"{c.metadata.transactions:,}"),
    Row("their bytes", lambda c: _bytes(c.metadata.transaction_bytes)),
    Row("the largest", lambda c: _bytes(c.metadata.largest_transaction_bytes)),
    Row(
        "etcd, one member: transactions and watchers",
        lambda c: _seconds(arithmetic.etcd_s(c.size, c.metadata, c.etcd)),
    ),
    Row("told to each broker", lambda c: _bytes(c.metadata.watch_bytes)),
    Row("told to all", lambda c: _bytes(arithmetic.told_bytes(c.size, c.metadata))),
    Row("each broker applies it", _mere(lambda m: m.elections_applied_s)),
    Row("the slowest transaction, in one go", _mere(lambda m: m.slowest_applied_s)),
    Row(
        "all of this, one after the other",
        lambda c: _seconds(arithmetic.failover_s(c.size, c.metadata, c.etcd)),
    ),
    Row("it is back: view and plan to admit it", _mere(lambda m: m.admission_s)),
    Row(
        "transactions until it is in sync again, at least",
        lambda c: f"{arithmetic.joining_transactions(c.size):,}",
    ),
    Row("looking for companions, in one go", _mere(lambda m: m.companions_s)),
    Row("leaders to give back", lambda c: f"{c.metadata.misplaced:,}"),
    Row("finding them, in a thread", _mere(lambda m: m.misplaced_s)),
)

CLIENTS = (
    Row("Metadata of all topics", _mere(lambda m: m.answer_s)),
    Row("its bytes", lambda c: _bytes(c.metadata.answer_bytes)),
    Row("Metadata of one topic", _mere(lambda m: m.topic_answer_s)),
    Row("its bytes", lambda c: _bytes(c.metadata.topic_answer_bytes)),
)

HOSTED = (
    Row("replicas", lambda c: f"{c.size.replicas_per_broker:,}"),
    Row(
        "logs, if all topics are queues with delays",
        lambda c: f"{c.size.replicas_per_broker * arithmetic.LOGS_WITH_COMPANIONS:,}",
    ),
    Row("files of the replicas", lambda c: f"{arithmetic.files(c.size, c.log):,.0f}"),
    Row("memory, idle", lambda c: _bytes(arithmetic.memory_bytes(c.size, c.metadata, c.log))),
    Row(
        "start after a clean stop",
        lambda c: _seconds(arithmetic.start_s(c.size, c.metadata, c.log.clean_open_s)),
    ),
    Row(
        "start after a kill",
        lambda c: _seconds(arithmetic.start_s(c.size, c.metadata, c.log.killed_open_s)),
    ),
    Row(
        "a full collection of garbage, logs alone",
        lambda c: _seconds(c.size.replicas_per_broker * c.log.collection_s),
    ),
    Row(
        "connections with other brokers",
        lambda c: f"{arithmetic.connections_per_broker(c.size):,}",
    ),
    Row(
        "fetches while nothing is written, sent and answered",
        lambda c: f"{arithmetic.idle_fetches_per_s(c.size):,.0f}/s each",
    ),
)

SECTIONS = (
    ("Metadata in etcd", STORED),
    ("Every broker, for the metadata of all", EACH_BROKER),
    ("One broker dies", DEATH),
    ("Clients", CLIENTS),
    ("What each broker hosts", HOSTED),
)


def tables(cases: Sequence[Case]) -> str:
    lines: list[str] = []
    for title, rows in SECTIONS:
        sizes = " | ".join(str(case.size) for case in cases)
        lines += [f"## {title}", "", f"| brokers / partitions | {sizes} |"]
        lines.append("|---|" + "---:|" * len(cases))
        lines += [f"| {row.label} | {' | '.join(map(row.of, cases))} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def unit_table(log: HostingFigures, etcd: EtcdFigures) -> str:
    """What everything else was multiplied from."""
    rows = (
        ("a log: files", f"{log.files:.1f}"),
        ("on disk", _bytes(log.disk_bytes)),
        ("memory", _bytes(log.memory_bytes)),
        ("opened after a clean stop", _opening(log.clean_open_s, log.clean_open_cpu_s)),
        ("opened after a kill", _opening(log.killed_open_s, log.killed_open_cpu_s)),
        ("a key in etcd: file", _bytes(etcd.disk_bytes)),
        ("memory", _bytes(etcd.memory_bytes)),
        ("read once, of etcd's processor", _seconds(etcd.read_s)),
        ("a transaction of 117 partitions, of etcd's processor", _seconds(etcd.transaction_s)),
        ("each broker that watches it", _seconds(etcd.watcher_s)),
        ("by the clock, eight at a time", _seconds(etcd.answered_s)),
    )
    head = [
        "## One of each",
        "",
        f"{log.logs:,} logs with one batch of ten messages each; {etcd.keys:,} keys in one member "
        "of etcd on the same machine.",
        "",
    ]
    body = ["| | |", "|---|---:|", *(f"| {label} | {value} |" for label, value in rows), ""]
    return "\n".join([*head, *body])


def _live_bytes(metadata: MetadataFigures) -> int:
    return metadata.key_bytes + metadata.value_bytes


def _opening(wall_s: float, cpu_s: float) -> str:
    return f"{_seconds(wall_s)}, of the processor {_seconds(cpu_s)}"


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def _seconds(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"
