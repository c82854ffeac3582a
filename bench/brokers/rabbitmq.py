"""RabbitMQ with a stream (its replayable log), driven by PerfTest over AMQP."""

import re
import socket
from pathlib import Path
from typing import Final

from bench.artifacts import (
    PERF_TEST,
    PERF_TEST_VERSION,
    find_java,
    find_program,
    maven_class_path,
    run_tool,
)
from bench.brokers.kafka_speaker import Fsync
from bench.brokers.own_protocol import WINDOW_MESSAGES
from bench.child_process import ChildProcess, free_port
from bench.load_run import Finished, Latency, LoadFailed, Percentiles, Throughput, run_generator

# Debian's wrapper on the PATH switches user and folders; the script behind it does not.
_PLAIN_SCRIPT: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_AMQP_GREETING: Final = b"AMQP\x00\x00\x09\x01"
_RATE: Final = re.compile(r"(sending|receiving) rate avg: (\d+) msg/s")
_CONFIRM_LATENCY: Final = re.compile(
    r"confirm latency min/median/75th/95th/99th (\d+)/(\d+)/(\d+)/(\d+)/(\d+) "
)


class RabbitMq:
    name = "RabbitMQ streams"
    fsync = "never, as all streams"
    comparable = Fsync.NEVER
    generator = f"PerfTest {PERF_TEST_VERSION}, persistent messages with confirms"

    def __init__(self) -> None:
        self._port = 0
        self._queues = 0
        self.process: ChildProcess
        self._name_server: ChildProcess

    def version(self) -> str:
        query = ["dpkg-query", "--showformat=${Version}", "--show", "rabbitmq-server"]
        return run_tool(query).strip()

    def start(self, folder: Path) -> None:
        server = find_program(
            "rabbitmq-server", hint="Debian package rabbitmq-server", places=[_PLAIN_SCRIPT]
        )
        name_server = find_program("epmd", hint="Erlang's port mapper")
        find_java()
        maven_class_path(PERF_TEST)
        self._port, name_port = free_port(), free_port()
        (folder / "home").mkdir()
        (folder / "plugins").write_text("[].\n")
        env = {
            "HOME": str(folder / "home"),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(name_port),
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ("-kernel inet_dist_use_interface {127,0,0,1}"),
        }
        # Started here and in the foreground: the one that Erlang starts by itself would stay.
        self._name_server = ChildProcess(
            [name_server, "-address", "127.0.0.1", "-port", str(name_port)],
            log_path=folder / "epmd.log",
        )
        self.process = ChildProcess([server], log_path=folder / "rabbitmq.log", env=env)
        try:
            self.process.wait_ready(self._greets)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self.process.stop()
        self._name_server.stop()

    def publish(self, count: int, size_bytes: int) -> tuple[Throughput, Finished]:
        self._queues += 1
        finished = self._perf_test(
            *("--producers", "1", "--consumers", "0", "--pmessages", str(count)),
            *("--size", str(size_bytes), *self._new_stream()),
        )
        return self._rate(finished, "sending", count), finished

    def consume(self, count: int, size_bytes: int) -> tuple[Throughput, Finished]:
        finished = self._perf_test(
            *("--producers", "0", "--consumers", "1", "--cmessages", str(count)),
            *("--queue", f"bench-{self._queues}", "--predeclared"),
            *("--qos", str(WINDOW_MESSAGES), "--multi-ack-every", str(WINDOW_MESSAGES // 10)),
            *("--consumer-args", "x-stream-offset=first", "--size", str(size_bytes)),
        )
        return self._rate(finished, "receiving", count), finished

    def publish_latency(self, size_bytes: int, rate_per_s: int, seconds: int) -> Latency:
        self._queues += 1
        finished = self._perf_test(
            *("--producers", "1", "--consumers", "0", "--rate", str(rate_per_s)),
            *("--time", str(seconds), "--size", str(size_bytes), *self._new_stream()),
        )
        found = _CONFIRM_LATENCY.findall(finished.output)
        if not found:
            raise LoadFailed("PerfTest printed no confirm latency")
        _, median_us, _, _, p99_us = map(int, found[-1])
        # PerfTest stops at the 99th percentile.
        nothing = float("nan")
        points = Percentiles(p50=median_us / 1000, p99=p99_us / 1000, p999=nothing, max=nothing)
        return Latency(messages=rate_per_s * seconds, latency_ms=points)

    def _new_stream(self) -> tuple[str, ...]:
        return (
            *("--queue", f"bench-{self._queues}", "--stream-queue", "--auto-delete", "false"),
            *("--flag", "persistent", "--confirm", str(WINDOW_MESSAGES)),
        )

    def _perf_test(self, *arguments: str) -> Finished:
        main = [find_java(), "-cp", maven_class_path(PERF_TEST), "com.rabbitmq.perf.PerfTest"]
        address = f"amqp://guest:guest@127.0.0.1:{self._port}"
        return run_generator([*main, "--uri", address, *arguments])

    def _rate(self, finished: Finished, direction: str, count: int) -> Throughput:
        rates = {name: int(rate) for name, rate in _RATE.findall(finished.output)}
        if not rates.get(direction):
            raise LoadFailed("PerfTest printed no rate")
        return Throughput(messages=count, seconds=count / rates[direction])

    def _greets(self) -> bool:
        """A wrong version in the greeting is answered with the right one, and a close."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1.0) as connection:
                connection.sendall(_AMQP_GREETING)
                return connection.recv(1) != b""
        except OSError:
            return False
