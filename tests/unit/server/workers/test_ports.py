"""Ports of several workers: kept from others, shared where they are to be."""

import contextlib
import socket

import pytest

from goqueue.model.broker_config import BrokerConfig, broker_config
from goqueue.model.errors import InvalidConfig
from goqueue.server.addresses import StartFailed
from goqueue.server.workers.ports import KeptPorts, kafka_ports
from goqueue.testing.ports import free_port, free_ports


def config(kafka: int, http: int, workers: int = 2, host: str = "127.0.0.1") -> BrokerConfig:
    return broker_config(
        {
            "kafka.port": str(kafka),
            "http.port": str(http),
            "workers": str(workers),
            "host": host,
        }
    )


def listening(port: int, *, is_shared: bool = False) -> socket.socket:
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(("127.0.0.1", port))
        made.listen()
    except BaseException:
        made.close()
        raise
    return made


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_workers_listen_where_ports_are_kept(host: str) -> None:
    with contextlib.closing(KeptPorts.take(config(0, 0, 3, host))) as ports:
        assert len(set(ports.kafka)) == 3
        assert ports.http not in ports.kafka
        with contextlib.ExitStack() as workers:
            for port in ports.kafka:
                workers.enter_context(listening(port))
            for _ in range(3):
                workers.enter_context(listening(ports.http, is_shared=True))


def test_kept_ports_refuse_clients_while_no_worker_listens() -> None:
    with contextlib.closing(KeptPorts.take(config(0, 0))) as ports:
        for port in (*ports.kafka, ports.http):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=10)


def test_ports_follow_each_other() -> None:
    first = free_ports(3)
    with contextlib.closing(KeptPorts.take(config(first, free_port(), 3))) as ports:
        assert ports.kafka == (first, first + 1, first + 2)


@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("which", ["kafka", "second kafka", "http"])
def test_a_port_of_another_program_is_refused(which: str, is_shared: bool) -> None:
    """Also one that would share it: clients would get to either of two brokers."""
    kafka, http = free_ports(2), free_port()
    taken = {"kafka": kafka, "second kafka": kafka + 1, "http": http}[which]
    with (
        listening(taken, is_shared=is_shared),
        pytest.raises(StartFailed, match=f"port {taken} .*in use"),
    ):
        KeptPorts.take(config(kafka, http))
    # Nothing is left bound.
    KeptPorts.take(config(kafka, http)).close()


def test_ports_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="65535 to 65536"):
        kafka_ports(config(65_535, 0))
    with pytest.raises(InvalidConfig, match=r"http\.port: 9093 is the Kafka port of worker 1"):
        kafka_ports(config(9_092, 9_093))
