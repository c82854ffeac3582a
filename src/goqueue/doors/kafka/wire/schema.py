"""The compiled readers and writers of one operation at one version, made on first use."""

from collections.abc import Generator, Iterator
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema

from goqueue.doors.kafka.wire import single_produce
from goqueue.doors.kafka.wire.fields import Buffer
from goqueue.doors.kafka.wire.reading import (
    MAX_ELEMENTS,
    Decoded,
    Read,
    ReadStepwise,
    compile_reader,
    compile_stepwise_reader,
    decode,
    decode_stepwise,
)
from goqueue.doors.kafka.wire.writing import (
    Chunks,
    Message,
    Write,
    WriteStepwise,
    compile_stepwise_writer,
    compile_writer,
)


class Schema(NamedTuple):
    """How one version of an operation stands on the wire."""

    has_tagged_request_header: bool
    has_tagged_response_header: bool
    read: Read
    write: Write
    api_key: int
    version: int
    newest_version: int

    def read_request(
        self, buffer: memoryview, position: int, max_elements: int = MAX_ELEMENTS
    ) -> Decoded:
        """Decode the request body that starts at `position`, or raise `Malformed`."""
        return decode(self.read, buffer, position, max_elements)

    def read_request_stepwise(
        self, buffer: memoryview, position: int, max_elements: int = MAX_ELEMENTS
    ) -> Generator[None, None, Decoded]:
        """The same, in as many steps as it has elements."""
        read = _load_stepwise_reader(self.api_key, self.version, self.newest_version)
        return decode_stepwise(read, buffer, position, max_elements)

    def write_response(self, correlation_id: int, message: Message) -> Chunks:
        """The whole response, without the frame length before it."""
        chunks = self._begin_response(correlation_id)
        self.write(chunks, message)
        return chunks

    def write_response_stepwise(
        self, correlation_id: int, message: Message, out: Chunks
    ) -> Iterator[None]:
        """The same to `out`, in as many steps as it has elements."""
        out += self._begin_response(correlation_id)
        return _load_stepwise_writer(self.api_key, self.version)(out, message)

    def _begin_response(self, correlation_id: int) -> Chunks:
        header: Buffer = correlation_id.to_bytes(4, "big", signed=True)
        return [header, b"\x00"] if self.has_tagged_response_header else [header]


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
        api_key=api_key,
        version=version,
        newest_version=newest_version,
    )


@cache
def _load_stepwise_writer(api_key: int, version: int) -> WriteStepwise:
    return compile_stepwise_writer(load_response_schema(api_key, version))


@cache
def _load_stepwise_reader(api_key: int, version: int, newest_version: int) -> ReadStepwise:
    newest = load_request_schema(api_key, newest_version)
    return compile_stepwise_reader(load_request_schema(api_key, version), newest)
