"""Trace files: rotated, expired, searched, and readable after a crash."""

import os
from pathlib import Path

import pytest

from goqueue.broker.tracing.export import ExportFailed, ExportThread, as_lines
from goqueue.broker.tracing.files import SpanFiles
from goqueue.model.tracing.query import FoundSpans, SpanQuery
from goqueue.model.tracing.spans import Event, Span

DAY_MS = 86_400_000
LARGE = 10 * 1024 * 1024


def span(number: int, event: Event = Event.PUBLISH_RECEIVED, topic: str = "t") -> Span:
    return Span(f"{number:032x}", f"{number:016x}", None, event.value, topic, 0, number, number)


def files(folder: Path, max_bytes: int = LARGE, max_files: int = 10) -> SpanFiles:
    return SpanFiles(folder, max_bytes=max_bytes, max_files=max_files, retention_ms=DAY_MS)


def offsets(found: list[Span]) -> list[int | None]:
    return [each.offset for each in found]


def test_files_are_rotated_by_size_and_the_oldest_go(tmp_path: Path) -> None:
    written = files(tmp_path, max_bytes=1_000, max_files=3)
    for number in range(100):
        written.write([span(number)])
    paths = written.paths()
    assert len(paths) == 3
    assert all(path.stat().st_size < 1_000 + 300 for path in paths)
    found = written.search(SpanQuery()).spans
    assert offsets(found) == list(range(99, 99 - len(found), -1))
    assert written.size_bytes == sum(path.stat().st_size for path in paths)


def test_old_files_go_by_age_but_never_the_newest(tmp_path: Path) -> None:
    written = files(tmp_path, max_bytes=100)
    for number in range(3):
        written.write([span(number)])
    written.close()
    for path in written.paths():
        os.utime(path, (1, 1))
    reopened = files(tmp_path, max_bytes=100)
    reopened.write([span(9)])
    assert offsets(reopened.search(SpanQuery()).spans) == [9]


def test_a_line_that_a_crash_cut_off_is_passed_over(tmp_path: Path) -> None:
    written = files(tmp_path)
    written.write([span(1), span(2)])
    written.close()
    [path] = written.paths()
    path.write_bytes(path.read_bytes()[:-30])
    reopened = files(tmp_path)
    assert offsets(reopened.search(SpanQuery()).spans) == [1]
    reopened.write([span(3)])
    assert offsets(reopened.search(SpanQuery()).spans) == [3, 1]
    assert reopened.paths() == [path]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (SpanQuery(trace_id=f"{4:032x}"), [4]),
        (SpanQuery(offset=3), [3]),
        (SpanQuery(event="consume.acked"), [5, 3, 1]),
        (SpanQuery(topic="odd", offset=1), [1]),
        (SpanQuery(topic="odd"), [5, 3, 1]),
        (SpanQuery(status="failed"), []),
        (SpanQuery(from_us=2, to_us=4), [3, 2]),
        (SpanQuery(topic="o"), []),
    ],
)
def test_searching_files(tmp_path: Path, query: SpanQuery, expected: list[int]) -> None:
    written = files(tmp_path, max_bytes=300)
    for number in range(6):
        odd = number % 2 == 1
        event = Event.CONSUME_ACKED if odd else Event.PUBLISH_RECEIVED
        written.write([span(number, event, "odd" if odd else "even")])
    found = written.search(query)
    assert offsets(found.spans) == expected
    assert found.is_complete
    assert offsets(written.of_traces({f"{2:032x}", f"{5:032x}"}).spans) == [5, 2]
    newest = written.newest_of([Event.CONSUME_ACKED], limit=2, max_bytes=LARGE)
    assert offsets(newest) == [5, 3]


def test_a_search_that_was_cut_short_says_so(tmp_path: Path) -> None:
    written = files(tmp_path)
    written.write([span(number) for number in range(10)])
    found = written.search(SpanQuery(), traces=3)
    assert (offsets(found.spans), found.is_complete) == ([9, 8, 7], False)
    assert files(tmp_path / "none").search(SpanQuery()) == FoundSpans([], True)


def test_an_exporter_counts_what_it_loses_and_goes_on() -> None:
    taken: list[Span] = []

    def write(piece: list[Span]) -> None:
        if piece[0].offset == 0:
            raise ExportFailed("nobody there")
        taken.extend(piece)

    export = ExportThread("test", write)  # type: ignore[arg-type]
    export.offer(span(0))
    export.close()
    assert (export.exported, export.dropped) == (0, 1)
    export = ExportThread("test", write, end=lambda: taken.append(span(99)))  # type: ignore[arg-type]
    for number in range(1, 25_000):
        export.offer(span(number))
    export.close()
    assert export.exported + export.dropped == 24_999
    assert export.exported == len(taken) - 1
    assert taken[-1].offset == 99


def test_lines_are_json_with_the_trace_id_first() -> None:
    assert as_lines([span(1)]).startswith(b'{"traceId":"' + b"0" * 31 + b'1"')


def test_spans_of_some_traces_are_found_among_many(tmp_path: Path) -> None:
    written = files(tmp_path, max_bytes=20_000)
    written.write([span(number) for number in range(100)])
    written.write([span(number, Event.CONSUME_FETCHED) for number in range(100)])
    # The last line has no line feed yet: it is being written.
    written.write([span(7, Event.CONSUME_ACKED)])
    [*_, first] = written.paths()
    assert len(written.paths()) > 1
    first.write_bytes(first.read_bytes() + b'{"traceId":"')
    wanted = {f"{number:032x}" for number in (7, 42, 4_711)}
    found = written.of_traces(wanted)
    assert offsets(found.spans) == [7, 42, 7, 42, 7]
    assert found.is_complete
    assert offsets(written.search(SpanQuery(event="consume.fetched"), traces=2).spans) == [99, 98]
    hidden = written.search(SpanQuery(offset=42), may_be_seen=lambda _: False)
    assert hidden == FoundSpans([], True)


@pytest.mark.parametrize("piece_bytes", [1, 150, 1_000, 1_001, 5_000])
def test_files_are_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    written = files(tmp_path)
    written.write([span(number) for number in range(100)])
    [path] = written.paths()
    longest = max(map(len, path.read_bytes().splitlines())) + 1
    monkeypatch.setattr("goqueue.broker.tracing.files.PIECE_BYTES", piece_bytes)
    # Lines that are longer than a piece are passed over.
    expected = list(range(99, -1, -1)) if piece_bytes > longest else []
    assert offsets(written.search(SpanQuery()).spans) == expected
    assert offsets(written.search(SpanQuery(offset=42)).spans) == [42] * bool(expected)
