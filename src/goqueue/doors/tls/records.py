"""OpenSSL, which makes records of TLS from what is written, and what is read from records.

It is the OpenSSL that `cryptography` ships, reached by pyOpenSSL: AES takes it half as long as the
one beneath Python's `ssl`. pyOpenSSL's own `recv_into` and `bio_read` fill a buffer of their own
and copy it, which costs a third more. So this file, and no other, calls what lies beneath: `_ssl`,
`_into_ssl` and `_from_ssl` of a connection, and the bindings. pyproject.toml bounds the versions.
"""

from typing import Any, Final

from cryptography.x509 import Certificate
from OpenSSL import SSL
from OpenSSL._util import ffi as _ffi
from OpenSSL._util import lib as _lib

ffi: Any = _ffi
lib: Any = _lib

Bytes = bytes | bytearray | memoryview

# Encrypted at a time, and decrypted: what one step writes is still in the processor's cache when
# the next reads it, and OpenSSL keeps no more than this for a connection.
SLICE_BYTES: Final = 64 * 1024
# The largest record of TLS (RFC 8446, 5.1), and what encryption and a header add to one.
RECORD_BYTES: Final = 16 * 1024
_RECORD_EXTRA_BYTES: Final = 256 + 5


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
        self._ssl, self._arriving, self._leaving = below._ssl, below._into_ssl, below._from_ssl
        # The client said that it sends no more (RFC 8446, 6.1).
        self.has_ended = False

    @property
    def context(self) -> SSL.Context:
        return self._connection.get_context()

    def arrived(self, encrypted: Bytes) -> None:
        # Errors are the thread's: one that somebody else left there would be taken for ours.
        lib.ERR_clear_error()
        with ffi.from_buffer(encrypted) as start:
            lib.BIO_write(self._arriving, start, len(encrypted))

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
        ssl, size, filled = self._ssl, len(buffer), 0
        with ffi.from_buffer(buffer, require_writable=True) as start:
            while filled < size:
                # A call takes one record, or as much of it as there is room for.
                count = lib.SSL_read(ssl, start + filled, size - filled)
                if count <= 0:
                    self._look_at(count)
                    break
                filled += count
        return filled

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
