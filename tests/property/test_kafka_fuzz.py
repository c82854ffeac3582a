"""Bad input on a live broker: it answers or closes that connection, and serves all others."""

import io
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_writer

from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.wire.fields import fields_of
from goqueue.testing import EmbeddedBroker

TIMEOUT_SECONDS = 60
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
PATIENT = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with EmbeddedBroker(log_level="error") as broker:
        host, port = broker.bootstrap_servers.split(":")
        yield host, int(port)


def _default(entity: Any) -> Any:
    """A request of that kind with one element in each array."""
    values = {}
    for field in fields_of(entity):
        value = field.default
        if field.entity is not None and field.tag is None:
            inner = _default(field.entity)
            value = (inner,) if field.is_array else inner
        elif field.kafka_type == "string" and not field.is_array and value == "":
            value = "topic"
        elif field.kafka_type == "records":
            value = bytes(80)
        values[field.name] = value
    return entity(**values)


def _frames() -> list[bytes]:
    frames = []
    for operation in OPERATIONS.values():
        for version in range(operation.min_version, operation.max_version + 1):
            entity: Any = load_request_schema(operation.api_key, version)
            body = io.BytesIO()
            body.write(struct.pack(">hhih", operation.api_key, version, 5, -1))
            body.write(b"\x00" if entity.__flexible__ else b"")
            entity_writer(entity)(body, _default(entity))
            frames.append(body.getvalue())
    return frames


FRAMES = _frames()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    frame = bytearray(draw(st.sampled_from(FRAMES)))
    for _ in range(draw(st.integers(0, 4))):
        # The first four bytes choose the operation: leave them, to get behind them.
        position = draw(st.integers(8, len(frame) - 1))
        frame[position] = draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFE, 0xFF)))
    cut = draw(st.none() | st.integers(8, len(frame)))
    return bytes(frame[:cut])


def _exchange(address: tuple[str, int], data: bytes) -> bytes:
    """Send, say that this was all, and read until the broker closes."""
    with socket.create_connection(address, TIMEOUT_SECONDS) as peer:
        answer = b""
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            while piece := peer.recv(65536):
                answer += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
        return answer


def _assert_serves(address: tuple[str, int]) -> None:
    with socket.create_connection(address, TIMEOUT_SECONDS) as peer:
        peer.sendall(API_VERSIONS)
        size, correlation_id, error_code = struct.unpack(">iih", peer.recv(10))
        assert (correlation_id, error_code) == (1, 0)
        assert size > 50


@PATIENT
@given(data=st.binary(max_size=200))
def test_random_bytes(address: tuple[str, int], data: bytes) -> None:
    _exchange(address, data)
    _assert_serves(address)


@PATIENT
@given(bodies=st.lists(damaged(), min_size=1, max_size=4))
def test_damaged_requests(address: tuple[str, int], bodies: list[bytes]) -> None:
    _exchange(address, b"".join(struct.pack(">i", len(body)) + body for body in bodies))
    _assert_serves(address)


@PATIENT
@given(
    body=st.sampled_from(FRAMES),
    length=st.integers(-(2**31), 2**31 - 1) | st.integers(0, 300),
)
def test_wrong_frame_lengths(address: tuple[str, int], body: bytes, length: int) -> None:
    _exchange(address, struct.pack(">i", length) + body)
    _assert_serves(address)


@pytest.mark.parametrize("body", FRAMES, ids=lambda body: f"{body[1]}-v{body[3]}")
def test_every_operation_and_version_is_answered(address: tuple[str, int], body: bytes) -> None:
    with socket.create_connection(address, TIMEOUT_SECONDS) as peer:
        peer.sendall(struct.pack(">i", len(body)) + body)
        if body[:2] == b"\x00\x00":
            # Produce with acks=0 and no such topic: closed without an answer.
            assert peer.recv(1) == b""
            return
        _, correlation_id = struct.unpack(">ii", peer.recv(8))
        assert correlation_id == 5
