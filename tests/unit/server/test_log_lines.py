"""Lines of the log: one each, whatever names clients choose."""

import logging

from goqueue.server.log_lines import TextLine


def line(message: str, *values: object) -> str:
    record = logging.LogRecord("goqueue.doors", logging.INFO, "", 0, message, values, None)
    return TextLine().format(record)


def test_a_name_makes_no_line_of_its_own() -> None:
    """One from a client's certificate may have any characters."""
    name = "CN=bob\n2030-01-31T08:15:00.123Z INFO broker: all is well\x1b[2K\x9b\u2028"
    told = line("a call of a broker by %s", name)
    assert len(told.splitlines()) == 1
    assert told.isprintable()
    assert told.endswith(
        r"CN=bob\n2030-01-31T08:15:00.123Z INFO broker: all is well\x1b[2K\x9b\u2028"
    )


def test_other_letters_stay() -> None:
    assert line("user %s", "zoë 日本").endswith(": user zoë 日本")
