"""A network between processes that can be cut, one way or both."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from goqueue.testing.cluster_links import ClusterLinks
from tests.busy_machine import stretched

# Long enough for what is held back to come if it were not.
QUIET_S = 0.2


@pytest.fixture
def echo_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=echo, args=(connection,), daemon=True).start()

        def echo(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                while data := connection.recv(1000):
                    connection.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def links() -> Iterator[ClusterLinks]:
    """This process is broker 1."""
    made = ClusterLinks(lambda: {1: os.getpid()})
    yield made
    made.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), stretched(10))


def is_quiet(connection: socket.socket) -> bool:
    connection.settimeout(QUIET_S)
    try:
        connection.recv(100)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(stretched(10))
    return False


@pytest.mark.parametrize(("source", "target"), [(1, 2), (2, 1)])
def test_what_is_cut_is_held_back(
    source: int, target: int, links: ClusterLinks, echo_port: int
) -> None:
    with connected(links.port_to(2, echo_port)) as connection:
        connection.sendall(b"one")
        assert connection.recv(100) == b"one"
        links.cut(source, target)
        connection.sendall(b"two")
        assert is_quiet(connection)
        links.heal()
        assert connection.recv(100) == b"two"


def test_others_are_left_alone(links: ClusterLinks, echo_port: int) -> None:
    links.cut(3, 2)
    links.cut(1, "etcd")
    with connected(links.port_to(2, echo_port)) as connection:
        connection.sendall(b"one")
        assert connection.recv(100) == b"one"


def test_a_new_connection_waits_for_both_ways(links: ClusterLinks, echo_port: int) -> None:
    links.cut(2, 1)
    with connected(links.port_to(2, echo_port)) as connection:
        connection.sendall(b"one")
        assert is_quiet(connection)
        links.heal()
        assert connection.recv(100) == b"one"


def test_a_process_that_is_gone_refuses(links: ClusterLinks, echo_port: int) -> None:
    port = links.port_to("etcd", echo_port, only_for=1)
    with connected(port) as connection:
        connection.sendall(b"one")
        assert connection.recv(100) == b"one"
        links.refuse("etcd")
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    with pytest.raises(ConnectionRefusedError):
        connected(port)
    links.admit("etcd")
    with connected(port) as connection:
        connection.sendall(b"two")
        assert connection.recv(100) == b"two"


def test_who_connects_in_the_moment_of_a_kill_is_not_left_hanging(
    links: ClusterLinks, echo_port: int
) -> None:
    port = links.port_to(2, echo_port, only_for=1)
    for _ in range(50):
        connections = [connected(port) for _ in range(3)]
        links.refuse(2)
        for connection in connections:
            with connection, contextlib.suppress(ConnectionResetError):
                assert connection.recv(100) == b""
        links.admit(2)
