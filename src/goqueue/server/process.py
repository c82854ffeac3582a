"""A broker as a process, from its first log line to a clean end."""

import asyncio
import logging
import resource
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from goqueue.model.broker_config import BrokerConfig
from goqueue.server.addresses import Addresses
from goqueue.server.broker_server import BrokerServer
from goqueue.server.collecting import Collecting
from goqueue.server.heap import keep_heap_memory
from goqueue.server.log_lines import configure_logging
from goqueue.server.ready_report import report_ready
from goqueue.server.stop_signals import on_hang_up, on_stop_signals

log = logging.getLogger(__name__)


def serve(config: BrokerConfig, *, ready_file: Path | None = None) -> None:
    """`goqueue serve`: until SIGTERM or SIGINT. A start that fails raises `GoQueueError`."""
    configure_logging(level=config.log_level, line_format=config.log_format)
    prepare_process()
    try:
        uvloop.run(_run(config, ready_file))
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


def prepare_process() -> None:
    _raise_open_file_limit()
    keep_heap_memory()


async def _run(config: BrokerConfig, ready_file: Path | None) -> None:
    stop_requested = asyncio.Event()
    on_stop_signals(stop_requested)

    def is_ready(addresses: Addresses) -> None:
        report_ready([addresses], config.data_dir, ready_file)

    await run_broker(BrokerServer(config), stop_requested, is_ready)


async def run_broker(
    server: BrokerServer, stop_requested: asyncio.Event, is_ready: Callable[[Addresses], None]
) -> None:
    """Until it is asked to stop, then to the end."""
    if server.config.tls_certificate_file:
        on_hang_up(server.reload_certificates)
    addresses = await _started(server, stop_requested)
    if addresses is None:
        log.info("stopped before it was ready")
        return
    collecting = Collecting()
    try:
        collecting.start()
        is_ready(addresses)
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


def _raise_open_file_limit() -> None:
    """Segments, indexes and connections are open files; the soft limit is often just 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.warning("open files stay limited to %d: %s", soft, error)
