"""What is told when clients may come: lines for people, a file for scripts."""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from goqueue import __version__
from goqueue.server.addresses import Addresses


def report_ready(
    addresses: Sequence[Addresses], data_dir: Path, ready_file: Path | None, **facts: object
) -> None:
    """Of one broker, or of several that have their HTTP port in common. The file gets `facts`,
    too."""
    bootstrap = ",".join(each.bootstrap_servers for each in addresses)
    workers = f"  Workers {len(addresses)}\n" if len(addresses) > 1 else ""
    print(
        f"GoQueue {__version__} is ready ({_process_age_seconds():.2f} s)\n"
        f"  Kafka  {bootstrap}\n"
        f"  HTTP   {addresses[0].http_url}\n"
        f"  Data   {data_dir.resolve()}\n"
        f"{workers}Stop with Ctrl-C.",
        flush=True,
    )
    if ready_file is not None:
        _write_ready_file(
            ready_file,
            {
                "pid": os.getpid(),
                "version": __version__,
                "bootstrap_servers": bootstrap,
                "kafka_port": addresses[0].kafka_port,
                "http_url": addresses[0].http_url,
                "http_port": addresses[0].http_port,
                **facts,
            },
        )


def _write_ready_file(path: Path, facts: dict[str, object]) -> None:
    """The file appears whole or not at all."""
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(json.dumps(facts) + "\n")
    unfinished.rename(path)


def _process_age_seconds() -> float:
    """Time since this process was started, interpreter and imports included."""
    if not sys.platform.startswith("linux"):
        return time.process_time()
    # proc(5): field 22 of stat, counted in clock ticks since boot; the name may hold spaces.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
