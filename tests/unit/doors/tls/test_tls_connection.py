"""The layer between a socket and a door's connection, with a client in memory."""

import asyncio
import contextlib
import gc
import ssl
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography.x509 import Certificate
from OpenSSL import SSL

from goqueue.doors.tls import connection as layer
from goqueue.doors.tls.connection import TlsConnection
from goqueue.doors.tls.entrance import HANDSHAKES_MAX, TlsEntrance
from goqueue.doors.tls.records import RECORDS_WITHOUT_DATA_MAX, SLICE_BYTES
from goqueue.model.measuring.tls import TlsFigures
from goqueue.server.tls.making import MadeCertificates, make_certificates
from goqueue.server.tls.protocol import new_context
from tests.unit.doors.tls.written_records import RecordWriter, telling_context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> MadeCertificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"), ["localhost"])


class Source:
    def __init__(self, files: MadeCertificates) -> None:
        self.context = new_context()
        self.context.use_certificate_chain_file(str(files.broker))
        self.context.use_privatekey_file(str(files.broker_key))
        self.figures = TlsFigures()

    def client_name(self, certificate: Certificate) -> str | None:
        raise AssertionError(certificate)

    def refusal(self, chain: Sequence[Certificate]) -> str | None:
        raise AssertionError(chain)


class Socket(asyncio.Transport):
    """Takes what is written, unless it is full."""

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._protocol = protocol
        self.sent = bytearray()
        self.held = bytearray()
        self.is_full = False
        self.high = 64 * 1024
        self.is_paused = False
        self.is_closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 5) if name == "peername" else default

    def write(self, data: Any) -> None:
        if not self.is_full:
            self.sent += data
            return
        before = len(self.held)
        self.held += data
        if before <= self.high < len(self.held):
            self._protocol.pause_writing()

    def drain(self) -> None:
        was_paused = len(self.held) > self.high
        self.sent += self.held
        self.held.clear()
        if was_paused:
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return len(self.held)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert low is None
        self.high = high or 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class Kafka(asyncio.BufferedProtocol):
    def __init__(self, size: int = 1_000) -> None:
        self.buffer = bytearray(size)
        self.read = bytearray()
        self.transport: asyncio.Transport | None = None
        self.pauses = 0
        self.resumes = 0
        self.has_ended = False
        self.pause_after: int | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=64 * 1024)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.read += self.buffer[:nbytes]
        if self.pause_after is not None and len(self.read) >= self.pause_after:
            assert self.transport is not None
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        self.pauses += 1

    def resume_writing(self) -> None:
        self.resumes += 1

    def eof_received(self) -> None:
        self.has_ended = True


class Http(asyncio.Protocol):
    def __init__(self) -> None:
        self.read = bytearray()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.read += data


class Client:
    """The other side, in memory."""

    def __init__(
        self,
        files: MadeCertificates,
        made: TlsConnection,
        entrance: TlsEntrance,
        *,
        context: ssl.SSLContext | None = None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        context = context or ssl.create_default_context(cafile=str(files.ca))
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self._in, self._out, server_hostname="localhost", session=session
        )
        self._made = made
        self._entrance = entrance
        self.socket = Socket(made)
        made.connection_made(self.socket)

    def shake_hands(self) -> None:
        for _ in range(3):
            with_pending = False
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                with_pending = True
            self.flush()
            self.hear()
            if not with_pending:
                return

    def flush(self, piece_bytes: int = layer.SCRATCH_BYTES) -> None:
        data = self._out.read()
        for start in range(0, len(data), piece_bytes):
            self.raw(data[start : start + piece_bytes])

    def raw(self, data: bytes) -> None:
        self._entrance.arriving.view[: len(data)] = data
        self._made.buffer_updated(len(data))

    def send(self, data: bytes, piece_bytes: int = layer.SCRATCH_BYTES) -> None:
        self.tls.write(data)
        self.flush(piece_bytes)

    def hear(self) -> None:
        self._in.write(bytes(self.socket.sent))
        self.socket.sent.clear()

    def read(self) -> bytes:
        self.hear()
        found = bytearray()
        try:
            while piece := self.tls.read(100_000):
                found += piece
        except ssl.SSLWantReadError:
            pass
        return bytes(found)


@pytest.fixture
def source(files: MadeCertificates) -> Source:
    return Source(files)


@pytest.fixture
def entrance(source: Source) -> TlsEntrance:
    return TlsEntrance(source, "Kafka")


def connected(
    files: MadeCertificates, entrance: TlsEntrance, protocol: asyncio.BaseProtocol
) -> Client:
    client = Client(files, TlsConnection(entrance, lambda: protocol), entrance)
    client.shake_hands()
    return client


@pytest.mark.parametrize("piece_bytes", [1, 7, 1_000, layer.SCRATCH_BYTES])
def test_what_is_sent_arrives_in_whatever_pieces(
    files: MadeCertificates, entrance: TlsEntrance, piece_bytes: int
) -> None:
    async def run() -> None:
        kafka, http = Kafka(), Http()
        for protocol in (kafka, http):
            client = connected(files, entrance, protocol)
            data = bytes(number % 251 for number in range(3_000 if piece_bytes == 1 else 300_000))
            client.send(data, piece_bytes)
            assert bytes(protocol.read) == data

    asyncio.run(run())


def test_a_reader_that_pauses_gets_the_rest_later(
    files: MadeCertificates, entrance: TlsEntrance
) -> None:
    async def run() -> None:
        kafka = Kafka()
        client = connected(files, entrance, kafka)
        kafka.pause_after = 2_000
        client.send(b"x" * 10_000)
        assert len(kafka.read) == 2_000
        assert client.socket.is_paused
        kafka.pause_after = None
        assert kafka.transport is not None
        kafka.transport.resume_reading()
        assert len(kafka.read) == 2_000, "not within the call"
        await asyncio.sleep(0)
        assert len(kafka.read) == 10_000
        assert not client.socket.is_paused

    asyncio.run(run())


def test_an_answer_that_nobody_reads_is_counted_and_held_once(
    files: MadeCertificates, entrance: TlsEntrance
) -> None:
    async def run() -> None:
        kafka = Kafka()
        client = connected(files, entrance, kafka)
        transport = kafka.transport
        assert transport is not None
        client.socket.is_full = True
        answer = [b"head", bytes(10_000_000), b"tail"]
        transport.writelines(answer)
        assert kafka.pauses == 1
        size = sum(map(len, answer))
        # Encrypted it is a little longer; the larger part waits as it was given.
        assert size <= transport.get_write_buffer_size() <= size * 1.01
        assert len(client.socket.held) <= 3 * SLICE_BYTES
        transport.write(b"more")
        assert transport.get_write_buffer_size() >= size + 4
        client.socket.is_full = False
        client.socket.drain()
        assert (kafka.pauses, kafka.resumes) == (1, 1)
        assert transport.get_write_buffer_size() == 0
        assert client.read() == b"".join(answer) + b"more"

    asyncio.run(run())


def test_answers_of_tls_itself_are_bounded_where_nobody_reads_them(
    files: MadeCertificates, entrance: TlsEntrance
) -> None:
    """New keys that a client asks for without an end: each is answered at once."""

    async def run() -> None:
        kafka = Kafka()
        client = connected(files, entrance, kafka)
        client.socket.held += bytes(layer.OWN_ANSWERS_MAX_BYTES)
        client.send(b"fine")
        assert kafka.read == b"fine"
        assert not client.socket.is_closed
        client.socket.held += b"x"
        client.send(b"too much")
        assert client.socket.is_closed

    asyncio.run(run())


@pytest.fixture
def writer_of(
    files: MadeCertificates, entrance: TlsEntrance, tmp_path: Path
) -> Callable[[Kafka], tuple[Client, RecordWriter]]:
    def made(kafka: Kafka) -> tuple[Client, RecordWriter]:
        told = tmp_path / "secrets"
        context = telling_context(files.ca, told)
        client = Client(files, TlsConnection(entrance, lambda: kafka), entrance, context=context)
        client.shake_hands()
        return client, RecordWriter(told)

    return made


def test_clients_change_keys(
    writer_of: Callable[[Kafka], tuple[Client, RecordWriter]],
) -> None:
    async def run() -> None:
        kafka = Kafka()
        client, writer = writer_of(kafka)
        client.raw(b"".join(writer.key_update() + writer.data(b"%d," % each) for each in range(9)))
        assert kafka.read == b"0,1,2,3,4,5,6,7,8,"
        client.raw(writer.key_update())
        client.raw(writer.data(b"9"))
        assert kafka.read.endswith(b"9")
        assert kafka.transport is not None
        kafka.transport.write(b"with keys of its own")
        assert client.read() == b"with keys of its own"

    asyncio.run(run())


@pytest.mark.parametrize("between", [b"", b"x"])
def test_a_flood_of_new_keys_ends_the_connection(
    writer_of: Callable[[Kafka], tuple[Client, RecordWriter]], between: bytes
) -> None:
    """Each takes ten microseconds: 8 MB of them kept all others waiting for seconds."""

    async def run() -> None:
        kafka = Kafka()
        client, writer = writer_of(kafka)
        count = RECORDS_WITHOUT_DATA_MAX + 1
        flood = b"".join(
            writer.key_update() + (writer.data(between) if between else b"") for _ in range(count)
        )
        client.raw(flood + writer.data(b"behind"))
        assert client.socket.is_closed
        assert b"behind" not in kafka.read

    asyncio.run(run())


def test_others_have_their_turn_between_very_small_records(
    writer_of: Callable[[Kafka], tuple[Client, RecordWriter]],
) -> None:
    async def run() -> None:
        kafka = Kafka(size=10_000)
        client, writer = writer_of(kafka)
        count = layer.READS_PER_TURN
        client.raw(b"".join(writer.data(b"a") for _ in range(count - 1)))
        assert not client.socket.is_paused
        client.raw(b"".join(writer.data(b"b") for _ in range(count)))
        assert client.socket.is_paused
        assert len(kafka.read) == 2 * count - 1
        await asyncio.sleep(0)
        assert not client.socket.is_paused

        # Not where the protocol does not want more.
        kafka.pause_after = 0
        client.raw(b"".join(writer.data(b"c") for _ in range(count)))
        assert client.socket.is_paused
        await asyncio.sleep(0)
        assert client.socket.is_paused

    asyncio.run(run())


def test_what_was_written_is_sent_before_it_closes(
    files: MadeCertificates, entrance: TlsEntrance
) -> None:
    async def run() -> None:
        kafka = Kafka()
        client = connected(files, entrance, kafka)
        assert kafka.transport is not None
        client.socket.is_full = True
        kafka.transport.write(bytes(1_000_000))
        kafka.transport.close()
        assert not client.socket.is_closed
        client.socket.is_full = False
        client.socket.drain()
        assert client.socket.is_closed
        assert client.read() == bytes(1_000_000)
        # It said that nothing follows.
        assert client.tls.read(10) == b""

    asyncio.run(run())


def test_a_client_that_ends_is_answered_with_the_end(
    files: MadeCertificates, entrance: TlsEntrance
) -> None:
    async def run() -> None:
        kafka = Kafka()
        client = connected(files, entrance, kafka)
        client.tls.write(b"last")
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.flush()
        assert kafka.read == b"last"
        assert kafka.has_ended
        assert client.socket.is_closed

    asyncio.run(run())


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff", b"\x16\x03\x01zz"]
)
def test_what_is_no_handshake_ends_it_with_a_line(
    files: MadeCertificates,
    entrance: TlsEntrance,
    source: Source,
    caplog: pytest.LogCaptureFixture,
    said: bytes,
) -> None:
    async def run() -> None:
        def none() -> asyncio.BaseProtocol:
            raise AssertionError

        client = Client(files, TlsConnection(entrance, none), entrance)
        client.raw(said + bytes(100))
        assert client.socket.is_closed

    caplog.set_level("INFO")
    asyncio.run(run())
    assert source.figures.handshake_failures == 1
    (line,) = caplog.messages
    assert line.startswith("Kafka connection from 192.0.2.1 closed: ")
    assert ("does not speak TLS" in line) == (said[0] != 22)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_is_resumed(
    files: MadeCertificates, entrance: TlsEntrance, version: ssl.TLSVersion
) -> None:
    """It would outlive the certificate that a client showed when it began."""

    async def run() -> None:
        context = ssl.create_default_context(cafile=str(files.ca))
        context.minimum_version = context.maximum_version = version
        session: ssl.SSLSession | None = None
        for _ in range(3):
            kafka = Kafka()
            made = TlsConnection(entrance, iter([kafka]).__next__)
            client = Client(files, made, entrance, context=context, session=session)
            client.shake_hands()
            assert kafka.transport is not None
            kafka.transport.write(b"tickets come before this")
            assert client.read() == b"tickets come before this"
            assert client.tls.session_reused is False
            session = client.tls.session

    asyncio.run(run())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("ends", ["open", "in the handshake", "without TLS"])
def test_what_openssl_holds_goes_with_the_connection(
    files: MadeCertificates, entrance: TlsEntrance, version: ssl.TLSVersion, ends: str
) -> None:
    """Without the garbage collector, which may come much later."""

    async def run() -> None:
        context = ssl.create_default_context(cafile=str(files.ca))
        context.minimum_version = context.maximum_version = version
        made = TlsConnection(entrance, Kafka)
        client = Client(files, made, entrance, context=context)
        records = weakref.ref(made._records)
        match ends:
            case "open":
                client.shake_hands()
                client.send(bytes(300_000))
            case "in the handshake":
                with pytest.raises(ssl.SSLWantReadError):
                    client.tls.do_handshake()
                client.flush()
            case _:
                client.raw(b"GET / HTTP/1.1\r\n\r\n")
        assert records() is not None
        made.connection_lost(None)
        assert records() is None
        assert not entrance._handshaking

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()


def test_renegotiation_is_refused(files: MadeCertificates, entrance: TlsEntrance) -> None:
    """By pyOpenSSL's client: Python's own cannot ask for it."""

    async def run() -> None:
        kafka = Kafka()
        made = TlsConnection(entrance, lambda: kafka)
        socket = Socket(made)
        made.connection_made(socket)
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_max_proto_version(SSL.TLS1_2_VERSION)
        tls = SSL.Connection(context, None)
        tls.set_connect_state()

        def exchange() -> None:
            with contextlib.suppress(SSL.WantReadError):
                tls.do_handshake()
            with contextlib.suppress(SSL.WantReadError):
                said = tls.bio_read(100_000)
                entrance.arriving.view[: len(said)] = said
                made.buffer_updated(len(said))
            if socket.sent:
                tls.bio_write(bytes(socket.sent))
                socket.sent.clear()

        for _ in range(3):
            exchange()
        assert kafka.transport is not None
        assert tls.renegotiate()
        exchange()
        with pytest.raises(SSL.Error, match="no renegotiation"):
            exchange()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (b"TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        (b"TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
        # Who has no instructions for AES asks so.
        (b"TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
    ],
)
def test_the_cheapest_cipher_that_the_client_has_is_chosen(
    entrance: TlsEntrance, offered: bytes, chosen: str
) -> None:
    async def run() -> None:
        made = TlsConnection(entrance, Kafka)
        socket = Socket(made)
        made.connection_made(socket)
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_tls13_ciphersuites(offered)
        tls = SSL.Connection(context, None)
        tls.set_connect_state()
        with pytest.raises(SSL.WantReadError):
            tls.do_handshake()
        said = tls.bio_read(100_000)
        entrance.arriving.view[: len(said)] = said
        made.buffer_updated(len(said))
        tls.bio_write(bytes(socket.sent))
        tls.do_handshake()
        assert tls.get_cipher_name() == chosen

    asyncio.run(run())


def test_damaged_records_end_the_connection(files: MadeCertificates, entrance: TlsEntrance) -> None:
    async def run() -> None:
        kafka = Kafka()
        client = connected(files, entrance, kafka)
        client.tls.write(b"hello")
        damaged = bytearray(client._out.read())
        damaged[-1] ^= 1
        client.raw(bytes(damaged))
        assert client.socket.is_closed
        assert kafka.read == b""

    asyncio.run(run())


def test_handshakes_are_bounded_in_number_and_time(
    files: MadeCertificates,
    entrance: TlsEntrance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        clients = [
            Client(files, TlsConnection(entrance, Kafka), entrance)
            for _ in range(HANDSHAKES_MAX + 3)
        ]
        # Each makes another one go, although none has been told yet that its socket is closed.
        assert [client.socket.is_closed for client in clients[:4]] == [True, True, True, False]
        monkeypatch.setattr(layer, "HANDSHAKE_SECONDS", 0.0)
        late = Client(files, TlsConnection(entrance, Kafka), entrance)
        for _ in range(3):
            await asyncio.sleep(0)
        assert late.socket.is_closed

    asyncio.run(run())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_who_does_not_speak_tls_is_let_in_where_that_is_optional(
    files: MadeCertificates, source: Source, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    entrance = TlsEntrance(source, "Kafka", is_optional=True)
    by_tls = ssl.create_default_context(cafile=files.ca)

    async def has_heard(protocol: Kafka | Http, context: ssl.SSLContext | None) -> bool:
        server = await asyncio.get_running_loop().create_server(
            entrance.around(lambda: protocol), "127.0.0.1", 0
        )
        async with server:
            _, writer = await asyncio.open_connection(
                *server.sockets[0].getsockname(),
                ssl=context,
                server_hostname=None if context is None else "localhost",
            )
            data = bytes(number % 251 for number in range(300_000))
            writer.write(data)
            async with asyncio.timeout(10):
                while len(protocol.read) < len(data):
                    await asyncio.sleep(0.001)
            writer.close()
        assert protocol.transport is not None
        is_encrypted = protocol.transport.get_extra_info("sslcontext") is not None
        assert is_encrypted == (context is not None)
        return bytes(protocol.read) == data

    async def run() -> None:
        for context in (None, by_tls):
            assert await has_heard(Kafka(), context)
            assert await has_heard(Http(), context)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())
    assert source.figures.handshake_failures == 0
    assert not entrance._handshaking
