"""On which line of a TOML text each key stands; Python's parser does not tell.

Only for texts that were parsed without an error. Keys within inline tables have no line of their
own: the line of the key before the brace stands for them.
"""

import re
from typing import Final

from goqueue.spark.pipelines.field_lines import FieldLines, FieldPath

_BLANK: Final = re.compile(r"(?:\s|#[^\n]*)*")
_KEY_PART: Final = re.compile(
    r"""[ \t]*(?:(?P<bare>[\w-]+)|"(?P<basic>(?:[^"\\]|\\.)*)"|'(?P<literal>[^']*)')[ \t]*""",
    re.ASCII,
)
# What a value is made of, the longest first. A text in three quotes may end with up to five.
_VALUE_PIECE: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|(?P<opens>[\[{])"
    r"|(?P<closes>[\]}])"
    r"|(?P<newline>\n)"
    r"|.",
    re.DOTALL,
)


def toml_lines(text: str) -> FieldLines:
    return _Scanner(text.replace("\r\n", "\n")).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines = FieldLines()
        # How many tables there are so far of each array of tables.
        self._counts: dict[FieldPath, int] = {}

    def scan(self) -> FieldLines:
        table: FieldPath = ()
        while True:
            self._at = _match_end(_BLANK, self._text, self._at)
            if self._at >= len(self._text):
                return self._lines
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._assignment(table)

    def _header(self) -> FieldPath:
        line = self._line(self._at)
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        names = self._key()
        self._at += 2 if is_array else 1
        path = self._resolved(names[:-1])
        if is_array:
            number = self._counts.get((*path, names[-1]), 0)
            self._counts[(*path, names[-1])] = number + 1
            if number == 0:
                self._lines.set((*path, names[-1]), line)
            path = (*path, names[-1], number)
        else:
            path = self._resolved(names)
        self._lines.set(path, line)
        return path

    def _resolved(self, names: list[str]) -> FieldPath:
        """A name of an array of tables means the last of them."""
        path: FieldPath = ()
        for name in names:
            path = (*path, name)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _assignment(self, table: FieldPath) -> None:
        line = self._line(self._at)
        path: FieldPath = (*table, *self._key())
        self._at += 1  # the equals sign
        while self._text[self._at] in " \t":
            self._at += 1
        text_line = self._line(self._at)
        opening = self._text[self._at : self._at + 4]
        if opening in ('"""\n', "'''\n"):  # that newline is no part of the text
            text_line += 1
        self._lines.set(path, line, text_line=text_line)
        self._skip_value()

    def _key(self) -> list[str]:
        names = []
        while True:
            part = _KEY_PART.match(self._text, self._at)
            assert part is not None, "the parser has accepted the text"
            names.append(part["bare"] or part["basic"] or part["literal"] or "")
            self._at = part.end()
            if self._text[self._at : self._at + 1] != ".":
                return names
            self._at += 1

    def _skip_value(self) -> None:
        depth = 0
        while self._at < len(self._text):
            piece = _VALUE_PIECE.match(self._text, self._at)
            assert piece is not None, "any character is a piece"
            self._at = piece.end()
            depth += bool(piece["opens"]) - bool(piece["closes"])
            if piece["newline"] and depth == 0:
                return

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found is not None else at
