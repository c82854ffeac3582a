"""OpenSSL, which makes records of TLS from what is written, and what is read from records.

It is the OpenSSL that `cryptography` ships, reached by pyOpenSSL: AES takes it half as long as the
one beneath Python's `ssl`. pyOpenSSL's own `recv_into` and `bio_read` fill a buffer of their own
and copy it, which costs a third more. So this file, and no other, calls what lies beneath: `_ssl`,
`_into_ssl` and `_from_ssl` of a connection, and the bindings. pyproject.toml bounds the versions of
pyOpenSSL. Releases of `cryptography` drop bindings that pyOpenSSL does not use: at its start a
broker asks whether any are `missing`.
"""

from typing import Any, Final

from cryptography.x509 import Certificate
from OpenSSL import SSL
from OpenSSL._util import ffi as _ffi
from OpenSSL._util import lib as _lib

ffi: Any = _ffi
lib: Any = _lib

Bytes = bytes | bytearray | memoryview

# What is called beneath pyOpenSSL.
BINDINGS: Final = (
    "BIO_get_mem_data",
    "BIO_new",
    "BIO_new_mem_buf",
    "BIO_read",
    "BIO_s_mem",
    "BIO_set_mem_eof_return",
    "BIO_write",
    "ERR_clear_error",
    "SSL_ERROR_WANT_READ",
    "SSL_ERROR_ZERO_RETURN",
    "SSL_MODE_AUTO_RETRY",
    "SSL_clear_mode",
    "SSL_get_error",
    "SSL_get_verify_result",
    "SSL_read",
    "SSL_set_bio",
    "SSL_write",
    "X509_verify_cert_error_string",
)
_OF_CONNECTION: Final = ("_ssl", "_into_ssl", "_from_ssl", "_raise_ssl_error")

# Encrypted at a time: what one step writes is still in the processor's cache when the next reads
# it, and OpenSSL keeps no more than this for a connection.
SLICE_BYTES: Final = 128 * 1024
# The largest record of TLS (RFC 8446, 5.1), and what encryption and a header add to one.
RECORD_BYTES: Final = 16 * 1024
# Reads in vain of what arrives at once: of requests for new keys (RFC 8446, 4.6.3), and for a new
# handshake (TLS 1.2). One has 27 bytes and takes ten microseconds, so that a connection could hold
# up all others for seconds. Clients change keys after GBs; BoringSSL has a similar bound.
RECORDS_WITHOUT_DATA_MAX: Final = 32
_RECORD_EXTRA_BYTES: Final = 256 + 5


class ReceiveBuffer:
    """Where sockets put what arrives."""

    def __init__(self, size_bytes: int) -> None:
        self.view = memoryview(bytearray(size_bytes))
        self.start = ffi.from_buffer(self.view, require_writable=True)


class SendBuffer:
    """Encrypted bytes on their way to a socket."""

    def __init__(self) -> None:
        # A slice, the records it is cut into, and an alert or a new key before it.
        size_bytes = SLICE_BYTES + (SLICE_BYTES // RECORD_BYTES + 2) * _RECORD_EXTRA_BYTES
        self.view = memoryview(bytearray(size_bytes))
        self._start = ffi.from_buffer(self.view, require_writable=True)

    def fill(self, source: Any) -> int:
        return int(lib.BIO_read(source, self._start, len(self.view)))


class TlsRecords:
    """Of one connection, from the server's side. Methods raise `SSL.Error` for what is no TLS."""

    def __init__(self, context: SSL.Context) -> None:
        self._connection = SSL.Connection(context, None)
        self._connection.set_accept_state()
        below: Any = self._connection
        self._unread = ffi.new("char **")
        self._ssl, self._arriving, self._leaving = below._ssl, below._into_ssl, below._from_ssl
        # pyOpenSSL sets it: a call would go through records without data, however many there are.
        lib.SSL_clear_mode(self._ssl, lib.SSL_MODE_AUTO_RETRY)
        # Whether `arriving` is a copy, and not the buffer that was passed to `arrived`.
        self._is_kept = True
        # The client said that it sends no more (RFC 8446, 6.1).
        self.has_ended = False
        # Of what arrived last: how often OpenSSL was asked for data, and how often in vain.
        self.reads = 0
        self._reads_without_data = 0

    def arrived(self, buffer: ReceiveBuffer, size_bytes: int) -> None:
        """What is in the buffer is read from there: call `keep` if something else gets into it
        before all is read."""
        self.reads = self._reads_without_data = 0
        # Errors are the thread's: one that somebody else left there would be taken for ours.
        lib.ERR_clear_error()
        if self._is_kept and self._unread_bytes():
            lib.BIO_write(self._arriving, buffer.start, size_bytes)
            return
        self._read_from(lib.BIO_new_mem_buf(buffer.start, size_bytes), is_kept=False)

    def keep(self) -> None:
        """Copy what was not read."""
        size_bytes = 0 if self._is_kept else self._unread_bytes()
        if size_bytes:
            copy = lib.BIO_new(lib.BIO_s_mem())
            lib.BIO_write(copy, self._unread[0], size_bytes)
            self._read_from(copy, is_kept=True)

    def _unread_bytes(self) -> int:
        return int(lib.BIO_get_mem_data(self._arriving, self._unread))

    def _read_from(self, source: Any, *, is_kept: bool) -> None:
        # That nothing is left means that more must arrive, and not that the client has gone.
        lib.BIO_set_mem_eof_return(source, -1)
        # It belongs to the connection then, which frees the one before.
        lib.SSL_set_bio(self._ssl, source, self._leaving)
        self._arriving, self._is_kept = source, is_kept

    def shake_hands(self) -> bool:
        """False if more must arrive."""
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            return False
        return True

    def refusal(self) -> str | None:
        """What is wrong with the certificate that the client showed."""
        result = lib.SSL_get_verify_result(self._ssl)
        if not result:
            return None
        return str(ffi.string(lib.X509_verify_cert_error_string(result)).decode())

    def client_chain(self) -> list[Certificate]:
        """The client's certificate, and those up to the CA that is trusted; empty: it has none."""
        return self._connection.get_verified_chain(as_cryptography=True) or []

    def read_into(self, buffer: memoryview) -> int:
        """How many bytes it has now; fewer than there is room for: nothing whole is left."""
        # Clients send records of ten bytes, too: librdkafka makes two of each message of 1 KB.
        read, ssl, size, filled, reads = lib.SSL_read, self._ssl, len(buffer), 0, 0
        with ffi.from_buffer(buffer, require_writable=True) as start:
            while filled < size:
                # A call takes one record, or as much of it as there is room for.
                count = read(ssl, start + filled, size - filled)
                reads += 1
                if count > 0:
                    filled += count
                    continue
                self._look_at(count)
                if self.has_ended or not self._unread_bytes():
                    break
                self._had_no_data()
        self.reads += reads
        return filled

    def _had_no_data(self) -> None:
        """A record is done with, and more have arrived."""
        self._reads_without_data += 1
        if self._reads_without_data > RECORDS_WITHOUT_DATA_MAX:
            raise SSL.Error("too many records without data")

    def write(self, plain: Bytes) -> None:
        with ffi.from_buffer(plain) as start:
            count = lib.SSL_write(self._ssl, start, len(plain))
        if count <= 0:
            self._look_at(count)

    def take(self, buffer: SendBuffer) -> int:
        """How many bytes for the client it has now; none: less than one."""
        return buffer.fill(self._leaving)

    def end(self) -> None:
        """Say that nothing follows. The client's own word is not waited for (RFC 8446, 6.1)."""
        self._connection.shutdown()

    def _look_at(self, result: int) -> None:
        """Why a call gave nothing."""
        error = lib.SSL_get_error(self._ssl, result)
        if error == lib.SSL_ERROR_ZERO_RETURN:
            self.has_ended = True
        elif error != lib.SSL_ERROR_WANT_READ:
            below: Any = self._connection
            below._raise_ssl_error(self._ssl, result)


def missing() -> list[str]:
    """What the libraries that are installed lack; else a client's handshake would find out."""
    connection = SSL.Connection(SSL.Context(SSL.TLS_SERVER_METHOD), None)
    return [
        *(name for name in BINDINGS if not hasattr(lib, name)),
        *(f"Connection.{name}" for name in _OF_CONNECTION if not hasattr(connection, name)),
    ]
