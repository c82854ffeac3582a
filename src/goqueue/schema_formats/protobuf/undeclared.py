"""Custom options that no file declares, and imports of files that nobody has.

Options of linters, validators and gateways are in many schemas, and the files that declare them
are seldom registered. Confluent's registry reads a schema without them; protoc does not. So what
protoc says it does not know is taken out of the text that it is given; an import that was needed
for a type is missed afterwards all the same.
"""

import re
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?(?:\*/|\Z))"
    r'|"(?:[^"\\\n]|\\[^\n])*"?'
    r"|'(?:[^'\\\n]|\\[^\n])*'?"
    r"|[\w.]+|.",
    re.DOTALL,
)
_UNKNOWN_OPTION: Final = re.compile(r'Option "(\([^"]*?\))[^"]*" unknown\.')
_MISSING_IMPORT: Final = re.compile(r'Import "([^"]+)" was not found or had errors\.')
_OPENING: Final = frozenset("{[(<")
_CLOSING: Final = frozenset("}])>")


class Unknown(NamedTuple):
    """What protoc does not know."""

    options: frozenset[str]
    imports: frozenset[str]


class Trimmed(NamedTuple):
    text: str
    left_out: tuple[str, ...]


class _Token(NamedTuple):
    start: int
    end: int
    text: str


class _Cut(NamedTuple):
    start: int
    end: int
    instead: str = ""


def unknown_in(said: str, references: Container[str]) -> Unknown:
    imports = (name for name in _MISSING_IMPORT.findall(said) if name not in references)
    return Unknown(frozenset(_UNKNOWN_OPTION.findall(said)), frozenset(imports))


def without(text: str, unknown: Unknown) -> Trimmed:
    """The text without what is unknown, and what that was, without its layout."""
    left_out = []
    kept = []
    position = 0
    for cut in _Reader(text, unknown).cuts():
        kept += [text[position : cut.start], cut.instead]
        position = cut.end
        left_out.append(" ".join(token.text for token in _tokens(text[cut.start : cut.end])))
    return Trimmed("".join([*kept, text[position:]]), tuple(left_out))


def _tokens(text: str) -> list[_Token]:
    return [
        _Token(found.start(), found.end(), found[0])
        for found in _TOKEN.finditer(text)
        if found["space"] is None
    ]


class _Reader:
    def __init__(self, text: str, unknown: Unknown) -> None:
        self._source = text
        self._tokens = _tokens(text)
        self._unknown = unknown

    def cuts(self) -> Iterator[_Cut]:
        index = 0
        starts_statement = True
        while index < len(self._tokens):
            text = self._tokens[index].text
            if starts_statement and text in ("option", "import"):
                end = self._end_of(index, ";")
                is_unknown = self._names_option(index + 1) or self._names_import(index, end)
                if is_unknown and end < len(self._tokens):
                    yield _Cut(self._tokens[index].start, self._tokens[end].end)
                index = end
            elif text == "[":
                end = self._end_of(index + 1, "]")
                yield from self._cuts_in_list(index, end)
                index = end
            if index < len(self._tokens):
                starts_statement = self._tokens[index].text in (";", "{", "}")
            index += 1

    def _end_of(self, index: int, wanted: str) -> int:
        """Where that stands, outside of brackets that begin in between."""
        depth = 0
        while index < len(self._tokens):
            text = self._tokens[index].text
            if not depth and text == wanted:
                break
            depth += (text in _OPENING) - (text in _CLOSING)
            index += 1
        return index

    def _names_option(self, index: int) -> bool:
        if index >= len(self._tokens) or self._tokens[index].text != "(":
            return False
        end = self._end_of(index + 1, ")")
        name = "".join(token.text for token in self._tokens[index : end + 1])
        return name in self._unknown.options

    def _names_import(self, index: int, end: int) -> bool:
        return self._tokens[index].text == "import" and any(
            token.text.strip("\"'") in self._unknown.imports for token in self._tokens[index:end]
        )

    def _cuts_in_list(self, begin: int, end: int) -> Iterator[_Cut]:
        """The options of a field, between brackets; without any left, the brackets go, too."""
        if end >= len(self._tokens):
            return
        kept = []
        index = begin + 1
        is_cut = False
        while index < end:
            after = min(self._end_of(index, ","), end)
            if self._names_option(index):
                is_cut = True
            else:
                kept.append(self._source[self._tokens[index].start : self._tokens[after - 1].end])
            index = after + 1
        if is_cut:
            instead = f"[{', '.join(kept)}]" if kept else ""
            yield _Cut(self._tokens[begin].start, self._tokens[end].end, instead)
