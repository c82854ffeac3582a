"""A worker: a broker whose metadata store is in the supervisor."""

import asyncio
import logging
import os
import socket
import sys
import threading
from typing import Final

import msgspec
import uvloop

from goqueue.metadata.over_socket import SocketStore
from goqueue.model.broker_config import BrokerConfig, broker_config
from goqueue.model.errors import GoQueueError
from goqueue.server.broker_server import BrokerServer
from goqueue.server.log_lines import configure_logging
from goqueue.server.process import prepare_process, run_broker
from goqueue.server.stop_signals import on_stop_signals
from goqueue.server.workers.orders import Order, Report

log = logging.getLogger(__name__)

# A stop takes a second or two. The next supervisor waits for the end of this worker.
ORPHAN_STOP_MAX_S: Final = 8.0


def main(store_descriptor: int) -> int:
    """The exit code."""
    said = sys.stdin.buffer.read()
    if not said:
        # The supervisor was ended just now.
        return 1
    order = msgspec.json.decode(said, type=Order)
    config = broker_config(order.settings)
    configure_logging(level=config.log_level, line_format=config.log_format, worker=order.worker)
    prepare_process()
    connection = socket.socket(fileno=store_descriptor)
    connection.set_inheritable(False)
    reports = _Reports()
    try:
        uvloop.run(_run(config, connection, reports))
    except GoQueueError as error:
        reports.tell(Report(problem=error.message))
        return 1
    return 0


class _Reports:
    """On standard output, which is nobody else's from now on: it is read for one line only, and
    whoever wrote more to it would hang one day."""

    def __init__(self) -> None:
        self._descriptor = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(self, report: Report) -> None:
        try:
            os.write(self._descriptor, msgspec.json.encode(report) + b"\n")
        except OSError as error:
            log.warning("nobody hears of this worker: %s", error)


async def _run(config: BrokerConfig, connection: socket.socket, reports: _Reports) -> None:
    stop_requested = asyncio.Event()
    # A service manager may tell every process what the supervisor tells its workers, too. Who does
    # not want to wait ends the supervisor, which kills its workers.
    on_stop_signals(stop_requested, again=lambda _: None)

    def orphaned() -> None:
        if not stop_requested.is_set():
            log.error("the process that started this worker is gone: it stops")
            stop_requested.set()
        # From a thread: a stop that hangs must not keep the folder from the next start.
        limit = threading.Timer(ORPHAN_STOP_MAX_S, os._exit, (1,))
        limit.daemon = True
        limit.start()

    store = await SocketStore.open(connection, on_lost=orphaned)
    try:
        await run_broker(
            BrokerServer(config, store=store), stop_requested, lambda _: reports.tell(Report())
        )
    finally:
        await store.close()
