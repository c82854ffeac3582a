"""A broker that others reach lets nobody in without log-in, unless somebody says so."""

import asyncio
from pathlib import Path

import pytest

from goqueue.model.broker_config import broker_config
from goqueue.server.addresses import StartFailed
from goqueue.server.broker_server import BrokerServer
from goqueue.server.exposure import check_exposure, is_loopback
from goqueue.server.workers.supervisor import supervise

OPEN = ("0.0.0.0", "::", "", "192.0.2.7", "[2001:db8::1]")
LOCAL = ("127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost")


@pytest.mark.parametrize("host", LOCAL)
def test_this_machine_alone_needs_nothing(host: str) -> None:
    assert is_loopback(host)
    check_exposure(broker_config({"host": host}))


@pytest.mark.parametrize("host", OPEN)
def test_others_are_let_in_only_with_a_word(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(StartFailed, match=r"goqueue secure init.*--insecure"):
        check_exposure(broker_config({"host": host}))
    check_exposure(broker_config({"host": host, "insecure": "true"}))
    check_exposure(broker_config({"host": host, "security.enabled": "true"}))


def test_a_name_that_nobody_knows_is_left_to_who_listens() -> None:
    assert is_loopback("no-such-host.invalid")


def test_neither_a_server_nor_workers_start(tmp_path: Path) -> None:
    texts = {"host": "0.0.0.0", "data.dir": str(tmp_path / "data"), "kafka.port": "0"}
    with pytest.raises(StartFailed, match="--insecure"):
        asyncio.run(BrokerServer(broker_config(texts)).start())
    with pytest.raises(StartFailed, match="--insecure"):
        supervise(broker_config({**texts, "workers": "2"}))
    assert not (tmp_path / "data").exists()
