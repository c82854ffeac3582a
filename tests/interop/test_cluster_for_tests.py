"""`GoQueueCluster`: brokers as processes, with switches for faults."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.testing import GoQueueCluster
from goqueue.testing.etcd_process import EtcdNotReady, EtcdProcess
from goqueue.testing.ports import free_port
from goqueue.testing.server_process import ServerNotReady
from tests.busy_machine import stretched


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + stretched(60)
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_brokers_are_cut_off_paused_killed_and_come_back() -> None:
    # Brokers that wait for the processor must not seem dead.
    session_ms = int(min(12.0, stretched(2)) * 1_000)
    setting = f"broker.session.timeout.ms={session_ms}"
    with GoQueueCluster("--set", setting, cuts=True) as cluster:
        assert cluster.running == [1, 2, 3]
        assert len(cluster.bootstrap_servers.split(",")) == len(cluster.http_urls) == 3
        first = cluster.controller()
        assert first is not None
        cluster.cut(first, "etcd")
        until(lambda: _controller_seen_by(cluster, *({1, 2, 3} - {first})) not in (first, None))
        cluster.heal()
        cluster.wait_complete()
        second = cluster.controller()
        assert second is not None
        cluster.pause(second)
        assert second not in cluster.running
        until(lambda: cluster.controller() not in (second, None))
        cluster.resume(second)
        cluster.wait_complete()
        cluster.kill(3)
        assert cluster.running == [1, 2]
        cluster.wait_complete()
        cluster.restart(3)
        assert cluster.stop(1) == 0
        cluster.kill("etcd")
        cluster.restart("etcd")
        cluster.restart(1)
        cluster.wait_complete()
        assert cluster.running == [1, 2, 3]


def _controller_seen_by(cluster: GoQueueCluster, *nodes: int) -> int | None:
    """Who is cut off from etcd does not hear of the next controller."""
    found = {cluster.controller(node) for node in nodes}
    return found.pop() if len(found) == 1 else None


def test_cuts_must_be_asked_for() -> None:
    cluster = GoQueueCluster()
    with pytest.raises(ServerNotReady, match="cuts=True"):
        cluster.cut(1, 2)
    cluster.close()


def test_without_etcd_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EtcdNotReady, match="apt-get install etcd-server"):
        EtcdProcess(tmp_path).start()


def test_a_cluster_to_look_at_ends_with_ctrl_c(tmp_path: Path) -> None:
    """What `make cluster` runs."""
    ports = [free_port() for _ in range(3)]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "goqueue.testing.local_cluster", "--brokers", "1"),
            *("--folder", str(tmp_path / "cluster"), "--kafka-port", str(ports[0])),
            *("--http-port", str(ports[1]), "--etcd-port", str(ports[2])),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "The cluster is ready.\n"
        assert f"Kafka 127.0.0.1:{ports[0]}" in process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.read().endswith("Stopping.\n")
    assert process.wait(stretched(60)) == 0
    assert (tmp_path / "cluster" / "node-1" / "clean-shutdown").exists()
