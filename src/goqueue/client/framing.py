"""Kafka requests and responses as bytes, and what failures of a connection mean; no socket here."""

import io
import os
import ssl
import struct
from typing import Final, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload, ResponsePayload

from goqueue.client.errors import BrokerUnreachable

Response = TypeVar("Response", bound=ResponsePayload)

# As large as a broker may be asked to answer; beyond, the other side does not speak Kafka.
RESPONSE_MAX_BYTES: Final = 104_857_600

CONNECT_TIMEOUT_SECONDS: Final = 5.0
# Longer than the time-out that is sent along with a request.
RESPONSE_TIMEOUT_SECONDS: Final = 35.0

FRAME_LENGTH: Final = struct.Struct(">i")
_CLIENT_ID: Final = "goqueue"
# How TLS answers what it does not understand (RFC 8446, 5.1: alert, and a version).
_TLS_ALERT: Final = b"\x15\x03"
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE")
_WANTS_CERTIFICATE: Final = ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE")


def request_frame(request: RequestPayload, correlation_id: int) -> bytes:
    header = request.__header_schema__(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(correlation_id),
        client_id=_CLIENT_ID,
    )
    with io.BytesIO() as buffer:
        entity_writer(type(header))(buffer, header)
        entity_writer(type(request))(buffer, request)
        body = buffer.getvalue()
    return FRAME_LENGTH.pack(len(body)) + body


def response_length(prefix: bytes | bytearray, address: str) -> int:
    (length,) = FRAME_LENGTH.unpack(prefix)
    if bytes(prefix[:2]) == _TLS_ALERT:
        raise BrokerUnreachable(f"the broker at {address} speaks TLS, and the client does not")
    if not 0 < length <= RESPONSE_MAX_BYTES:
        raise BrokerUnreachable(f"what listens at {address} is not a Kafka port")
    return int(length)


def parse_response(
    frame: bytes, response_type: type[Response], correlation_id: int, address: str
) -> Response:
    try:
        header, header_size = entity_reader(response_type.__header_schema__)(frame, 0)
        response, _ = entity_reader(response_type)(frame, header_size)
    except Exception as error:  # whatever the decoder raises on bytes that are not Kafka's
        raise BrokerUnreachable(
            f"what listens at {address} answers in another language than Kafka's"
        ) from error
    if header.correlation_id != correlation_id:
        raise BrokerUnreachable(f"the broker at {address} answered out of order")
    return response


def not_connected(address: str, error: OSError) -> BrokerUnreachable:
    if isinstance(error, TimeoutError):
        return BrokerUnreachable(
            f"no broker answers at {address} within {CONNECT_TIMEOUT_SECONDS:g} s"
        )
    if isinstance(error, ssl.SSLError):
        return BrokerUnreachable(f"no broker is trusted at {address}: {_tls_words(error)}")
    # asyncio's own text for a refused connection repeats the address, not the reason.
    number = error.errno or 0
    reason = os.strerror(number) if number > 0 else error.strerror or str(error)
    return BrokerUnreachable(f"no broker answers at {address}: {reason}")


def not_answered(address: str, error: Exception) -> BrokerUnreachable:
    if isinstance(error, TimeoutError):
        return BrokerUnreachable(
            f"the broker at {address} did not answer within {RESPONSE_TIMEOUT_SECONDS:g} s"
        )
    if isinstance(error, ssl.SSLError):
        return BrokerUnreachable(
            f"the broker at {address} closed the connection: {_tls_words(error)}"
        )
    return BrokerUnreachable(f"the broker at {address} closed the connection")


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused ({error.verify_message})"
    if error.reason in _NO_TLS:
        return "it does not speak TLS"
    if error.reason in _WANTS_CERTIFICATE:
        return "it wants a certificate of the client"
    return (error.reason or "TLS failed").lower().replace("_", " ")
