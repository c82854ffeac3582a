"""Spans in files: lines of JSON, rotated by size, removed by number and age.

A line that is not complete (written right now, or cut off by a crash) is passed over.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import re2

from goqueue.broker.tracing.export import as_lines
from goqueue.model.tracing.query import FoundSpans, SpanQuery
from goqueue.model.tracing.spans import Event, Span
from goqueue.storage.rotated_lines import RotatedLines

# Read by one query, newest first: more than what is kept by default.
SCAN_MAX_BYTES: Final = 128 * 1024 * 1024
PIECE_BYTES: Final = 1024 * 1024
# Of what a query looks for; the newest win. A span takes about a kilobyte of memory.
FOUND_MAX_SPANS: Final = 10_000
# Lines decoded between two breaths, so that the event loop gets its turn.
_SLICE_LINES: Final = 500
_BREATH_SECONDS: Final = 0.002

_decoder = msgspec.json.Decoder(Span)


def _bytes_as_they_are() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    return options


_OPTIONS: Final = _bytes_as_they_are()


class SpanFiles:
    def __init__(self, folder: Path, *, max_bytes: int, max_files: int, retention_ms: int) -> None:
        self._lines = RotatedLines(
            folder,
            "spans",
            max_bytes=max_bytes,
            max_files=max_files,
            retention_ms=retention_ms,
        )

    # --- writing (one thread) -------------------------------------------------------------

    def write(self, spans: Sequence[Span]) -> None:
        self._lines.write(as_lines(spans))

    def close(self) -> None:
        self._lines.close()

    # --- reading (any thread) -------------------------------------------------------------

    def paths(self) -> list[Path]:
        """The newest first."""
        return self._lines.paths()

    @property
    def size_bytes(self) -> int:
        return self._lines.size_bytes

    def search(
        self,
        query: SpanQuery,
        *,
        may_be_seen: Callable[[Span], bool] = lambda _: True,
        traces: int | None = None,
    ) -> FoundSpans:
        """The newest spans that match, of `traces` different traces at most."""
        return self._scan(
            _needle(query),
            lambda span: may_be_seen(span) and query.matches(span),
            traces=traces,
            since_us=query.from_us,
        )

    def of_traces(self, trace_ids: set[str]) -> FoundSpans:
        """All spans of these traces."""
        # The trace id is a line's first field.
        ids = "|".join(map(re2.escape, sorted(trace_ids)))
        begin = rf'\{{"traceId":"(?:{ids})"'.encode()
        return self._scan(begin, lambda span: span.trace_id in trace_ids)

    def newest_of(self, events: Iterable[Event], *, limit: int, max_bytes: int) -> list[Span]:
        """The newest spans of these events, looked for in about `max_bytes` of files at most."""
        wanted = {event.value for event in events}
        found = self._scan(
            None, lambda span: span.event in wanted, limit=limit, max_bytes=max_bytes
        )
        return found.spans

    def _scan(
        self,
        pattern: bytes | None,
        matches: Callable[[Span], bool],
        *,
        limit: int = FOUND_MAX_SPANS,
        traces: int | None = None,
        since_us: int | None = None,
        max_bytes: int = SCAN_MAX_BYTES,
    ) -> FoundSpans:
        """`pattern` is in each line that is worth decoding; None: in all of them."""
        regex = None if pattern is None else _compiled(pattern)
        spans: list[Span] = []
        seen: set[str] = set()
        read_bytes = 0
        for path in self.paths():
            with contextlib.suppress(FileNotFoundError):
                if since_us is not None and path.stat().st_mtime * 1_000_000 < since_us:
                    # Written in the order of time: what is older has nothing either.
                    return FoundSpans(spans, True)
                for data in _pieces_backwards(path):
                    read_bytes += len(data)
                    for line in (
                        _lines_backwards(data) if regex is None else _lines_with(regex, data)
                    ):
                        if (span := _decode(line)) is None or not matches(span):
                            continue
                        spans.append(span)
                        seen.add(span.trace_id)
                        if len(spans) >= limit or len(seen) == traces:
                            return FoundSpans(spans, False)
            if read_bytes >= max_bytes:
                return FoundSpans(spans, False)
        return FoundSpans(spans, True)


def _pieces_backwards(path: Path) -> Iterator[bytes]:
    """Whole lines, the last first: what is held at a time is little beside a file."""
    with path.open("rb", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - PIECE_BYTES)
            piece = os.pread(file.fileno(), end - start, start)
            # A line that begins before the piece is read with the one before, unless it is longer.
            cut = piece.find(b"\n") + 1 if start else 0
            yield piece[cut:]
            end = start + cut if 0 < cut < len(piece) else start


def _lines_backwards(data: bytes) -> Iterator[bytes]:
    """One by one: splitting a whole file would stop the event loop meanwhile, 17 ms for 10 MiB."""
    end = len(data)
    count = 0
    while end >= 0:
        start = data.rfind(b"\n", 0, end)
        if start + 1 < end:
            yield data[start + 1 : end]
        end = start
        count += 1
        if count % _SLICE_LINES == 0:
            time.sleep(_BREATH_SECONDS)


def _compiled(pattern: bytes) -> "re2._Regexp[bytes]":
    regex = re2.compile(pattern, _OPTIONS)
    # It would be kept among the last 128, with the megabytes of states that a search leaves in it.
    re2.purge()
    return regex


def _lines_with(regex: "re2._Regexp[bytes]", data: bytes) -> Iterator[bytes]:
    """The last first. RE2 looks through a file in some milliseconds, and lets the event loop run
    meanwhile; line by line it takes a hundred times as long."""
    found = [match.start() for match in regex.finditer(data)]
    before = len(data)
    for count, at in enumerate(reversed(found), 1):
        if at < before:
            before = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            yield data[before : len(data) if end < 0 else end]
        if count % _SLICE_LINES == 0:
            time.sleep(_BREATH_SECONDS)


def _needle(query: SpanQuery) -> bytes | None:
    """What a line must have in it, so that others need not be decoded."""
    if query.trace_id is not None:
        needle = b'"traceId":"%b"' % query.trace_id.encode()
    elif query.offset is not None:
        needle = b'"offset":%d' % query.offset
    elif query.event is not None:
        needle = b'"event":"%b"' % query.event.encode()
    elif query.topic is not None:
        needle = b'"topic":%b' % msgspec.json.encode(query.topic)
    elif query.status == "failed":
        needle = b'"status":"failed"'
    else:
        return None
    escaped: bytes = re2.escape(needle)
    return escaped


def _decode(line: bytes) -> Span | None:
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None  # cut off by a crash, or being written
