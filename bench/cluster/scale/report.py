"""The figures of some sizes beside each other, as Markdown."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from bench.cluster.scale import arithmetic
from bench.cluster.scale.hosting import HostingFigures
from bench.cluster.scale.imagined import Size
from bench.cluster.scale.metadata import MetadataFigures


class Sized(msgspec.Struct):
    """What was measured for one size."""

    brokers: int
    partitions: int
    metadata: MetadataFigures

    @property
    def size(self) -> Size:
        return Size(self.brokers, self.partitions)


class Row(NamedTuple):
    label: str
    of: Callable[[Size, MetadataFigures, HostingFigures], str]


STORED = (
    Row("topics of 100 partitions", lambda s, _m, _h: f"{s.topics:,}"),
    Row("keys in etcd", lambda _s, m, _h: f"{m.keys:,}"),
    Row("their bytes, with values", lambda _s, m, _h: _bytes(m.key_bytes + m.value_bytes)),
    Row(
        "added to etcd's history by a rolling restart",
        lambda s, m, _h: _bytes(arithmetic.rolling_restart_bytes(s, m)),
    ),
    Row("bytes that a broker reads at its start", lambda _s, m, _h: _bytes(m.read_bytes)),
    Row(
        "sent by etcd for reading everything once a minute",
        lambda s, m, _h: f"{_bytes(arithmetic.reconciling_bytes_per_s(s, m))}/s",
    ),
    Row(
        "lease renewals at etcd",
        lambda s, _m, _h: f"{arithmetic.keep_alives_per_s(s):,.0f}/s",
    ),
)

EACH_BROKER = (
    Row("loading the image", lambda _s, m, _h: _seconds(m.load_s)),
    Row("memory of it, with the keys' revisions", lambda _s, m, _h: _bytes(m.image_bytes)),
    Row("the most while everything is read again", lambda _s, m, _h: _bytes(m.load_most_bytes)),
    Row("comparing everything once a minute", lambda _s, m, _h: _seconds(m.reconcile_s)),
    Row("of it in one go", lambda _s, m, _h: _seconds(m.reconcile_stall_s)),
    Row("a full collection of garbage, image alone", lambda _s, m, _h: _seconds(m.collection_s)),
    Row("one partition changes", lambda _s, m, _h: _seconds(m.one_change_s)),
    Row("a broker is gone: applied in one go", lambda _s, m, _h: _seconds(m.broker_gone_s)),
    Row("a broker is back: the same", lambda _s, m, _h: _seconds(m.broker_back_s)),
    Row("placing a topic, in a thread", lambda _s, m, _h: _seconds(m.place_s)),
    Row("whether there is room for it, in one go", lambda _s, m, _h: _seconds(m.check_room_s)),
    Row("`goqueue cluster status`, in a thread", lambda _s, m, _h: _seconds(m.status_s)),
)

DEATH = (
    Row("partitions to change; to elect for", lambda _s, m, _h: f"{m.changes:,}; {m.led:,}"),
    Row("the controller's view", lambda _s, m, _h: _seconds(m.view_s)),
    Row("its plan", lambda _s, m, _h: _seconds(m.plan_s)),
    Row("making the transactions", lambda _s, m, _h: _seconds(m.act_s)),
    Row(
        "transactions; their bytes; the largest",
        lambda _s, m, _h: (
            f"{m.transactions:,}; {_bytes(m.transaction_bytes)}; "
            f"{_bytes(m.largest_transaction_bytes)}"
        ),
    ),
    Row(
        "etcd's processor time for them, estimated",
        lambda _s, m, _h: _seconds(arithmetic.etcd_s(m)),
    ),
    Row("told to each broker", lambda _s, m, _h: _bytes(m.watch_bytes)),
    Row("told to all", lambda s, m, _h: _bytes(arithmetic.told_bytes(s, m))),
    Row(
        "each broker applies it; the slowest transaction",
        lambda _s, m, _h: f"{_seconds(m.elections_applied_s)}; {_seconds(m.slowest_applied_s)}",
    ),
    Row("all of it, one after the other", lambda _s, m, _h: _seconds(arithmetic.failover_s(m))),
    Row("it is back: view and plan to admit it", lambda _s, m, _h: _seconds(m.admission_s)),
    Row(
        "transactions until it is in sync again, at least",
        lambda s, _m, _h: f"{arithmetic.joining_transactions(s):,}",
    ),
    Row("looking for companions at each step", lambda _s, m, _h: _seconds(m.companions_s)),
    Row(
        "finding what to give back to first replicas",
        lambda _s, m, _h: f"{_seconds(m.misplaced_s)} for {m.misplaced:,}",
    ),
)

CLIENTS = (
    Row(
        "Metadata of all topics",
        lambda _s, m, _h: f"{_seconds(m.answer_s)}, {_bytes(m.answer_bytes)}",
    ),
    Row(
        "Metadata of one topic",
        lambda _s, m, _h: f"{_seconds(m.topic_answer_s)}, {_bytes(m.topic_answer_bytes)}",
    ),
)

HOSTED = (
    Row("replicas", lambda s, _m, _h: f"{s.replicas_per_broker:,}"),
    Row(
        "logs if all topics are queues with delays",
        lambda s, _m, _h: f"{s.replicas_per_broker * arithmetic.LOGS_WITH_COMPANIONS:,}",
    ),
    Row("files of the replicas", lambda s, _m, h: f"{arithmetic.files(s, h):,.0f}"),
    Row("memory, idle", lambda s, m, h: _bytes(arithmetic.memory_bytes(s, m, h))),
    Row(
        "start after a clean stop",
        lambda s, m, h: _seconds(arithmetic.start_s(s, m, h.clean_open_s)),
    ),
    Row("start after a kill", lambda s, m, h: _seconds(arithmetic.start_s(s, m, h.killed_open_s))),
    Row(
        "a full collection of garbage, logs alone",
        lambda s, _m, h: _seconds(s.replicas_per_broker * h.collection_s),
    ),
    Row(
        "connections with other brokers",
        lambda s, _m, _h: f"{arithmetic.connections_per_broker(s):,}",
    ),
    Row(
        "fetches while nothing is written, sent and answered",
        lambda s, _m, _h: f"{arithmetic.idle_fetches_per_s(s):,.0f}/s each",
    ),
)

SECTIONS = (
    ("Metadata in etcd", STORED),
    ("Every broker, for the metadata of all", EACH_BROKER),
    ("One broker dies", DEATH),
    ("Clients", CLIENTS),
    ("What each broker hosts", HOSTED),
)


def tables(found: Sequence[Sized], hosting: HostingFigures) -> str:
    lines: list[str] = []
    for title, rows in SECTIONS:
        sizes = " | ".join(str(one.size) for one in found)
        lines += [f"## {title}", "", f"| brokers / partitions | {sizes} |"]
        lines.append("|---|" + "---|" * len(found))
        for row in rows:
            cells = (row.of(one.size, one.metadata, hosting) for one in found)
            lines.append(f"| {row.label} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def hosting_table(hosting: HostingFigures) -> str:
    rows = (
        ("files", f"{hosting.files:.1f}"),
        ("on disk", _bytes(hosting.disk_bytes)),
        ("memory", _bytes(hosting.memory_bytes)),
        ("opened after a clean stop", _opening(hosting.clean_open_s, hosting.clean_open_cpu_s)),
        ("opened after a kill", _opening(hosting.killed_open_s, hosting.killed_open_cpu_s)),
    )
    head = [f"## One log, of {hosting.logs:,} with one batch of ten messages each", ""]
    body = ["| | |", "|---|---|", *(f"| {label} | {value} |" for label, value in rows), ""]
    return "\n".join([*head, *body])


def _opening(wall_s: float, cpu_s: float) -> str:
    return f"{_seconds(wall_s)}, of the processor {_seconds(cpu_s)}"


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def _seconds(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}" if seconds < 1_000 else f"{seconds:,.0f} s"
    return f"{seconds * 1e6:.0f} µs"
