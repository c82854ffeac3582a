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
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    config = broker_config(order.settings)
    configure_logging(level=config.log_level, line_format=config.log_format, worker=order.worker)
    prepare_process()
    connection = socket.socket(fileno=store_descriptor)
    connection.set_inheritable(False)
    try:
        uvloop.run(_run(config, connection))
    except GoQueueError as error:
        _tell(Report(problem=error.message))
        return 1
    return 0


async def _run(config: BrokerConfig, connection: socket.socket) -> None:
    stop_requested = asyncio.Event()
    on_stop_signals(stop_requested)

    def orphaned() -> None:
        if not stop_requested.is_set():
            log.error("the process that started this worker is gone: it stops")
            stop_requested.set()
        # From a thread: also a loop that hangs must not keep the folder from the next start.
        limit = threading.Timer(ORPHAN_STOP_MAX_S, os._exit, (1,))
        limit.daemon = True
        limit.start()

    store = await SocketStore.open(connection, on_lost=orphaned)
    try:
        await run_broker(
            BrokerServer(config, store=store), stop_requested, lambda _: _tell(Report())
        )
    finally:
        await store.close()


def _tell(report: Report) -> None:
    """The supervisor may be gone."""
    try:
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()
    except OSError as error:
        log.warning("nobody hears of this worker: %s", error)
