"""NATS JetStream with file storage, driven through NATS's own Go client.

`nats bench` would be the natural generator, but its module cannot be fetched and verified from
every module proxy; the small generator in `native/nats_load` uses the same client library.
"""

import socket
from pathlib import Path

import msgspec

from bench.artifacts import NATS_SERVER_VERSION, nats_load, nats_server
from bench.brokers.kafka_speaker import Fsync
from bench.brokers.own_protocol import WINDOW_MESSAGES
from bench.child_process import ChildProcess, free_port
from bench.load_run import Finished, Latency, LoadFailed, Throughput, run_generator


class Nats:
    name = "NATS JetStream"
    fsync = "every 1000 ms (sync_interval)"
    comparable = Fsync.INTERVAL
    generator = "own generator on nats.go, asynchronous publishes"

    def __init__(self) -> None:
        self._port = 0
        self.process: ChildProcess

    def version(self) -> str:
        return NATS_SERVER_VERSION

    def start(self, folder: Path) -> None:
        program = nats_server()
        nats_load()
        self._port = free_port()
        config = folder / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self._port}"\n'
            f'jetstream {{ store_dir: "{folder / "data"}", sync_interval: "1s" }}\n'
        )
        self.process = ChildProcess([program, "-c", str(config)], log_path=folder / "nats.log")
        self.process.wait_ready(self._greets)

    def stop(self) -> None:
        self.process.stop()

    def publish(self, count: int, size_bytes: int) -> tuple[Throughput, Finished]:
        return self._throughput("publish", count, size_bytes)

    def consume(self, count: int, size_bytes: int) -> tuple[Throughput, Finished]:
        return self._throughput("consume", count, size_bytes)

    def publish_latency(self, size_bytes: int, rate_per_s: int, seconds: int) -> Latency:
        arguments = ("-rate", str(rate_per_s), "-warmup", str(rate_per_s))
        finished = self._run("publish-latency", rate_per_s * seconds, size_bytes, *arguments)
        latency = msgspec.json.decode(finished.output, type=Latency)
        if latency.failed:
            raise LoadFailed(f"{latency.failed} of {latency.messages} messages failed")
        return latency

    def _throughput(self, mode: str, count: int, size_bytes: int) -> tuple[Throughput, Finished]:
        finished = self._run(mode, count, size_bytes, "-window", str(WINDOW_MESSAGES))
        result = msgspec.json.decode(finished.output, type=Throughput)
        result.check()
        return result, finished

    def _run(self, mode: str, count: int, size_bytes: int, *arguments: str) -> Finished:
        target = ("-url", f"nats://127.0.0.1:{self._port}")
        volume = ("-count", str(count), "-size", str(size_bytes))
        return run_generator([nats_load(), mode, *target, *volume, *arguments])

    def _greets(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1.0) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False
