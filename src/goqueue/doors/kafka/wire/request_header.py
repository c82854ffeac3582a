"""The header before every request (versions 1 and 2; KIP-482 adds the tagged fields)."""

import struct
from typing import Final, NamedTuple

from goqueue.doors.kafka.wire.reading import Malformed, skip_tags

_FIXED_PART: Final = struct.Struct(">hhih")


class RequestHeader(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int

    def body_position(self, frame: memoryview, has_tags: bool) -> int:
        return skip_tags(frame, self.end) if has_tags else self.end


def read_request_header(frame: memoryview) -> RequestHeader:
    try:
        api_key, version, correlation_id, length = _FIXED_PART.unpack_from(frame, 0)
        end = _FIXED_PART.size + max(length, 0)
        if length < -1 or end > len(frame):
            raise Malformed(f"client id of {length} bytes in a frame of {len(frame)}")
        client_id = str(frame[_FIXED_PART.size : end], "utf-8") if length >= 0 else None
    except (struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"request header: {error}") from error
    return RequestHeader(api_key, version, correlation_id, client_id, end)
