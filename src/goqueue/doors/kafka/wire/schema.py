"""The compiled readers and writers of one operation at one version, made on first use."""

from functools import cache
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema

from goqueue.doors.kafka.wire import single_produce
from goqueue.doors.kafka.wire.fields import Buffer
from goqueue.doors.kafka.wire.reading import MAX_ELEMENTS, Decoded, Read, compile_reader, decode
from goqueue.doors.kafka.wire.writing import Chunks, Message, Write, compile_writer


class Schema(NamedTuple):
    """How one version of an operation stands on the wire."""

    has_tagged_request_header: bool
    has_tagged_response_header: bool
    read: Read
    write: Write

    def read_request(
        self, buffer: memoryview, position: int, max_elements: int = MAX_ELEMENTS
    ) -> Decoded:
        """Decode the request body that starts at `position`, or raise `Malformed`."""
        return decode(self.read, buffer, position, max_elements)

    def write_response(self, correlation_id: int, message: Message) -> Chunks:
        """The whole response, without the frame length before it."""
        header: Buffer = correlation_id.to_bytes(4, "big", signed=True)
        chunks: Chunks = [header]
        if self.has_tagged_response_header:
            chunks.append(b"\x00")
        self.write(chunks, message)
        return chunks


@cache
def load_schema(api_key: int, version: int, newest_version: int) -> Schema:
    # Importing all of kio's versions would cost most of a second; each is imported when first used.
    request: Any = load_request_schema(api_key, version)
    newest: Any = load_request_schema(api_key, newest_version)
    response: Any = load_response_schema(api_key, version)
    read, write = compile_reader(request, newest), compile_writer(response)
    if api_key == single_produce.API_KEY and version >= single_produce.FIRST_FLEXIBLE_VERSION:
        read = single_produce.single_reader(version, read)
        write = single_produce.single_writer(version, write)
    return Schema(
        has_tagged_request_header=request.__flexible__,
        has_tagged_response_header=response.__header_schema__.__version__ > 0,
        read=read,
        write=write,
    )
