"""What a client may send to the HTTP port after connecting: HTTP's own API, SQS, the registry.

An input is the stream of bytes, from the request line on.
"""

import re
from functools import cache
from typing import Any, Final

from goqueue.doors.http.connection import HttpConnection
from tests.fuzz.fuzzed_broker import FuzzedBroker, SocketlessTransport
from tests.fuzz.target import Finding, Target, Verdict

_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3})")
_INTERNAL_ERROR: Final = b"500"

_broker = cache(FuzzedBroker)


def run(data: bytes) -> Verdict:
    def feed(connection: HttpConnection, _transport: SocketlessTransport) -> None:
        connection.data_received(data)

    answer = _broker().exchange(_connect, feed)
    statuses = _STATUS.findall(answer)
    if answer and not answer.startswith(b"HTTP/1.1 "):
        raise Finding(f"{answer[:200]!r} is no answer of HTTP")
    if _INTERNAL_ERROR in statuses:
        raise Finding(f"{answer[:2_000]!r}")
    return statuses


def _connect(broker: FuzzedBroker) -> Any:
    return broker.http._connect()


TARGET: Final = Target(
    name="web_door",
    promise="whatever comes over HTTP is answered, and never with 500",
    run=run,
    # Now and then a new broker is part of it.
    cpu_ms_max=2_000,
    memory_mb_max=128,
    has_state=True,
    close=lambda: _broker().close(),
)
