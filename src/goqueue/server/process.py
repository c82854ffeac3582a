"""`goqueue serve`: one broker as a process, from its first log line to a clean end."""

import asyncio
import json
import logging
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Final

import uvloop

from goqueue import __version__
from goqueue.model.broker_config import BrokerConfig
from goqueue.server.broker_server import Addresses, BrokerServer
from goqueue.server.collecting import Collecting
from goqueue.server.heap import keep_heap_memory
from goqueue.server.log_lines import configure_logging

log = logging.getLogger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def serve(config: BrokerConfig, *, ready_file: Path | None = None) -> None:
    """Run a broker until SIGTERM or SIGINT. A start that fails raises `GoQueueError`."""
    configure_logging(level=config.log_level, line_format=config.log_format)
    _raise_open_file_limit()
    keep_heap_memory()
    try:
        uvloop.run(_run(config, ready_file))
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


async def _run(config: BrokerConfig, ready_file: Path | None) -> None:
    stop_requested = asyncio.Event()
    _on_signals(stop_requested)
    server = BrokerServer(config)
    addresses = await _started(server, stop_requested)
    if addresses is None:
        log.info("stopped before it was ready")
        return
    collecting = Collecting()
    try:
        collecting.start()
        _report_ready(config, addresses, ready_file)
        await stop_requested.wait()
    finally:
        started = time.monotonic()
        log.info("stopping")
        collecting.stop()
        in_order = await server.stop()
        seconds = time.monotonic() - started
        if in_order:
            log.info("stopped cleanly in %.2f s", seconds)
        else:
            log.warning(
                "stopped in %.2f s, not all of it in order: the next start verifies the rest",
                seconds,
            )


async def _started(server: BrokerServer, stop_requested: asyncio.Event) -> Addresses | None:
    """None if somebody does not want it any more: it may wait for others of its cluster."""
    starting = asyncio.create_task(server.start())
    stopping = asyncio.create_task(stop_requested.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return None
    return await starting


def _on_signals(stop_requested: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def requested(number: signal.Signals) -> None:
        if stop_requested.is_set():
            # The second signal: somebody does not want to wait. What was acknowledged is safe,
            # the next start recovers as after a crash.
            os._exit(128 + number)
        stop_requested.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, requested, number)


def _report_ready(config: BrokerConfig, addresses: Addresses, ready_file: Path | None) -> None:
    print(
        f"GoQueue {__version__} is ready ({_process_age_seconds():.2f} s)\n"
        f"  Kafka  {addresses.bootstrap_servers}\n"
        f"  HTTP   {addresses.http_url}\n"
        f"  Data   {config.data_dir.resolve()}\n"
        "Stop with Ctrl-C.",
        flush=True,
    )
    if ready_file is not None:
        write_ready_file(ready_file, addresses)


def write_ready_file(path: Path, addresses: Addresses) -> None:
    """Write the addresses for scripts; the file appears whole or not at all."""
    unfinished = path.with_name(path.name + ".tmp")
    facts = {
        "pid": os.getpid(),
        "version": __version__,
        "bootstrap_servers": addresses.bootstrap_servers,
        "kafka_port": addresses.kafka_port,
        "http_url": addresses.http_url,
        "http_port": addresses.http_port,
    }
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


def _raise_open_file_limit() -> None:
    """Segments, indexes and connections are open files; the soft limit is often just 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.warning("open files stay limited to %d: %s", soft, error)
