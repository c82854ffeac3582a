"""Kafka requests and responses as bytes: what goes between the length field and the next frame."""

import io
import struct
from typing import Final, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload, ResponsePayload

from goqueue.client.errors import BrokerUnreachable

Response = TypeVar("Response", bound=ResponsePayload)

# As large as a broker may be asked to answer; beyond, the other side does not speak Kafka.
RESPONSE_MAX_BYTES: Final = 104_857_600

FRAME_LENGTH: Final = struct.Struct(">i")
_CLIENT_ID: Final = "goqueue"


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
