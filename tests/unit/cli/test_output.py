"""Tables: what others chose to call something is shown, and does nothing."""

import pytest

from goqueue.cli.output import print_table, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("Ünïcödé 東京 😀", "Ünïcödé 東京 😀"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\nUser:admin  login", "a\\nUser:admin  login"),
        ("a\u202eb\x9bc", "a\\u202eb\\x9bc"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_name_does_not_begin_another_row(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a\nb\x1b[31m", "labels": ["x\ny", "z"]}]
    print_table(rows, columns={"name": "Name", "labels": "Labels"})
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 2
    assert "\x1b[31m" not in printed
