"""Redis Streams with an append-only file, driven by redis-benchmark.

redis-benchmark cannot walk a stream (each XREAD needs the id the last one ended at), so reading
is a plain loop over a socket that leaves the entries undecoded.
"""

import re
import resource
import socket
import time
from pathlib import Path
from typing import Final

from bench.artifacts import find_program, run_tool
from bench.brokers.kafka_speaker import Fsync
from bench.brokers.own_protocol import WINDOW_MESSAGES
from bench.child_process import ChildProcess, free_port
from bench.load_run import Finished, LoadFailed, Throughput, run_generator

_STREAM: Final = "bench"
_FIELD: Final = "m"
# Ten connections share the window; more would only add switches on two cores.
_CONNECTIONS: Final = 10
_READ_ENTRIES: Final = 1_000
_PONG: Final = b"+PONG\r\n"
_ENTRY_ID: Final = re.compile(rb"\$\d+\r\n(\d+-\d+)\r\n")
_HINT: Final = "Debian package redis-server"


class Redis:
    name = "Redis Streams"
    fsync = "every 1000 ms (appendfsync everysec)"
    comparable = Fsync.INTERVAL
    generator = "redis-benchmark XADD in pipelines; XREAD by 1,000 over a socket"
    # redis-benchmark sends as fast as it can; it has no steady rate.
    publish_latency = None

    def __init__(self) -> None:
        self._port = 0
        self.process: ChildProcess

    def version(self) -> str:
        words = run_tool([find_program("redis-server", hint=_HINT), "--version"])
        found = re.search(r"v=(\S+)", words)
        return found.group(1) if found else words.strip()

    def start(self, folder: Path) -> None:
        program = find_program("redis-server", hint=_HINT)
        find_program("redis-benchmark", hint="Debian package redis-tools")
        self._port = free_port()
        self.process = ChildProcess(
            [
                *(program, "--bind", "127.0.0.1", "--port", str(self._port)),
                *("--dir", str(folder), "--save", "", "--appendonly", "yes"),
                *("--appendfsync", "everysec"),
            ],
            log_path=folder / "redis.log",
        )
        self.process.wait_ready(self._pongs)

    def stop(self) -> None:
        self.process.stop()

    def publish(self, count: int, size_bytes: int) -> tuple[Throughput, Finished]:
        self._command("DEL", _STREAM)
        finished = run_generator(
            [
                *("redis-benchmark", "-p", str(self._port), "-n", str(count), "--csv"),
                *("-c", str(_CONNECTIONS), "-P", str(WINDOW_MESSAGES // _CONNECTIONS)),
                *("XADD", _STREAM, "*", _FIELD, "x" * size_bytes),
            ]
        )
        rate = float(finished.output.strip().splitlines()[-1].split(",")[1].strip('"'))
        stored = int(self._command("XLEN", _STREAM).strip(b":\r\n"))
        # redis-benchmark rounds up to whole pipelines.
        result = Throughput(messages=stored, seconds=stored / rate, failed=max(count - stored, 0))
        result.check()
        return result, finished

    def consume(self, count: int, size_bytes: int) -> tuple[Throughput, Finished]:
        before = resource.getrusage(resource.RUSAGE_SELF)
        started = time.perf_counter()
        received, last_id = 0, b"0-0"
        with self._connect() as connection:
            while received < count:
                ask = b"XREAD COUNT %d STREAMS bench %s\r\nPING\r\n" % (_READ_ENTRIES, last_id)
                connection.sendall(ask)
                answer = _read_to_pong(connection)
                entries = answer.count(b"\r\n$%d\r\n" % size_bytes)
                ids = _ENTRY_ID.findall(answer, max(len(answer) - size_bytes - 200, 0))
                if not entries or not ids:
                    raise LoadFailed(f"the stream ended after {received} of {count} messages")
                received, last_id = received + entries, ids[-1]
        seconds = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Throughput(messages=received, seconds=seconds), Finished("", cpu_seconds)

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), 5.0)

    def _command(self, *words: str) -> bytes:
        with self._connect() as connection:
            connection.sendall(" ".join(words).encode() + b"\r\n")
            return connection.recv(4096)

    def _pongs(self) -> bool:
        try:
            return self._command("PING") == _PONG
        except OSError:
            return False


def _read_to_pong(connection: socket.socket) -> bytes:
    """The PING sent after the question marks where its answer ends."""
    parts = bytearray()
    while not parts.endswith(_PONG):
        chunk = connection.recv(1 << 20)
        if not chunk:
            raise LoadFailed("the server closed the connection")
        parts += chunk
    return bytes(parts)
