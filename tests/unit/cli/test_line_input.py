"""Lines from a pipe, as they come."""

import asyncio
import os

import pytest

from goqueue.cli.failures import CommandFailed
from goqueue.cli.messages import line_input
from goqueue.cli.messages.line_input import read_lines


def lines_of(text: bytes) -> list[bytes]:
    async def read() -> list[bytes]:
        reader, writer = os.pipe()
        feeding = asyncio.create_task(asyncio.to_thread(_write_all, writer, text))
        try:
            return [line async for lines in read_lines(reader) for line in lines]
        finally:
            await feeding
            os.close(reader)

    return asyncio.run(read())


def _write_all(writer: int, text: bytes) -> None:
    with os.fdopen(writer, "wb") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\nlast without end", [b"one", b"last without end"]),
        (b"\n\n", [b"", b""]),
        (b"\xff\x00\n", [b"\xff\x00"]),
        (b"x" * 300_000 + b"\ny\n", [b"x" * 300_000, b"y"]),
    ],
)
def test_lines_end_with_a_line_feed_and_are_bytes(text: bytes, lines: list[bytes]) -> None:
    assert lines_of(text) == lines


def test_lines_come_before_the_input_ends() -> None:
    async def read() -> list[bytes]:
        reader, writer = os.pipe()
        found = read_lines(reader)
        os.write(writer, b"first\nsec")
        first = await anext(found)
        os.write(writer, b"ond\n")
        second = await anext(found)
        os.close(writer)
        assert [lines async for lines in found] == []
        os.close(reader)
        return first + second

    assert asyncio.run(read()) == [b"first", b"second"]


def test_a_line_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_input, "LINE_MAX_BYTES", 1000)
    with pytest.raises(CommandFailed, match="limit of 1000 bytes"):
        lines_of(b"x" * 5000)
