"""Ports that are given out for servers that start later."""

import pytest

from goqueue.testing import ports


def test_a_port_is_given_out_once_though_nobody_listens_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "_PORTS", range(19_000, 19_100))
    given = [ports.free_port() for _ in range(30)]
    given += [port + index for port in (ports.free_ports(3),) for index in range(3)]
    assert len(set(given)) == len(given)


def test_what_was_given_out_long_ago_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_PORTS", range(19_100, 19_120))
    monkeypatch.setattr(ports, "_ATTEMPTS", 20)
    monkeypatch.setattr(ports, "_KEPT_MAX", 10)
    assert len([ports.free_port() for _ in range(100)]) == 100
