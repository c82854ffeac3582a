"""`python -m bench.cluster.scale`: some sizes of cluster, from three brokers to a hundred.

With --brokers and --partitions, one size. Each is measured in a process of its own, since what
memory one took is never given back in full. Nothing goes over a wire, except what one member of
etcd is asked to find out what it takes itself.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from bench.artifacts import ROOT
from bench.cluster.scale import hosting, metadata, real_etcd
from bench.cluster.scale.imagined import Size
from bench.cluster.scale.report import Case, Sized, tables, unit_table
from bench.machine import describe_machine, load_average

SIZES: Final = (Size(3, 10_000), Size(10, 50_000), Size(30, 200_000), Size(100, 1_000_000))
LOGS: Final = 3_000
# More take etcd longer, and cost the same each.
ETCD_SIZE: Final = Size(3, 50_000)
# A size that takes longer is too large for the machine.
LIMIT_S: Final = 900.0


def measured(size: Size) -> Sized:
    return Sized(size.brokers, size.partitions, asyncio.run(metadata.measure(size)))


def _measured_by_a_child(size: Size) -> Sized:
    print(f"{size.brokers} brokers, {size.partitions:,} partitions", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "bench.cluster.scale", "--json"]
    command += ["--brokers", str(size.brokers), "--partitions", str(size.partitions)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=LIMIT_S, cwd=ROOT)
    return msgspec.json.decode(done.stdout, type=Sized)


def report(sizes: tuple[Size, ...], logs: int) -> str:
    load_before = load_average()
    with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder:
        log = asyncio.run(hosting.measure(Path(folder) / "data", logs))
        etcd = asyncio.run(real_etcd.measure(Path(folder) / "etcd", ETCD_SIZE))
    found = [_measured_by_a_child(size) for size in sizes]
    cases = [Case(one.size, one.metadata, log, etcd) for one in found]
    machine = describe_machine()
    head = [
        "# What limits come at 100 brokers and a million partitions",
        "",
        f"`python -m bench.cluster.scale`, {machine.processor}, {machine.memory_gb} GB, Python "
        f"{machine.python}; load average before {load_before}, after {load_average()}. Times are "
        "processor seconds of one process unless they say otherwise. Replication factor 3, "
        "`min.insync.replicas` 2, topics of 100 partitions without companions.",
        "",
        "",
    ]
    return "\n".join(head) + tables(cases) + "\n" + unit_table(log, etcd)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--brokers", type=int, help="at least 3")
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--logs", type=int, default=LOGS, help="that are opened")
    parser.add_argument("--json", action="store_true", help="one size, as it was measured")
    parser.add_argument("--results", type=Path, help="a folder to write the report to")
    chosen = parser.parse_args()
    sizes: tuple[Size, ...] = SIZES
    if chosen.brokers or chosen.partitions:
        sizes = (Size(chosen.brokers or SIZES[0].brokers, chosen.partitions or 10_000),)
    if any(size.brokers < size.replicas for size in sizes):
        parser.error("--brokers: at least as many as a partition has replicas")
    if chosen.json:
        sys.stdout.buffer.write(msgspec.json.encode(measured(sizes[0])))
        return 0
    text = report(sizes, chosen.logs)
    print(text)
    if chosen.results is not None:
        (chosen.results / f"{datetime.now():%Y-%m-%d}-scale.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
