"""Names of types and the order of options as the client wrote them, in the one layout.

A descriptor has every type by its full name and options by number. Confluent's registry gives out
what was sent, so that a client that compares texts finds its own again.
"""

import re
from collections.abc import Iterator
from typing import Final

_MAP: Final = re.compile(r"( *map<\w+, )(\.[\w.]+)(> (\w+) = (\d+).*)")
_FIELD: Final = re.compile(r"( *(?:repeated |optional |required )?)(\.[\w.]+)( (\w+) = (\d+).*)")
# Without ways back, so that no text takes longer than its length.
_DECLARED: Final = re.compile(r"(?<![\w.])([\w.]++)(?:\s*+>)?\s++(\w++)\s*+=\s*+(\d++)")
_OPTION: Final = re.compile(r"option (.+?) = ")


def as_written(printed: str, sent: str) -> str:
    """Where it is not clear what was written, the printed stays; the result is to be checked."""
    written = _types_written(sent)
    lines = [_with_type(line, written) for line in printed.split("\n")]
    first = next((at for at, line in enumerate(lines) if line.startswith("option ")), 0)
    last = first
    while lines[last].startswith("option "):
        last += 1
    lines[first:last] = sorted(lines[first:last], key=lambda line: _place(line, sent))
    return "\n".join(lines)


def _types_written(sent: str) -> dict[tuple[str, str], set[str]]:
    """By field name and number, the words that stand before them anywhere in the text."""
    found: dict[tuple[str, str], set[str]] = {}
    for match in _DECLARED.finditer(sent):
        found.setdefault((match[2], match[3]), set()).add(match[1])
    return found


def _with_type(line: str, written: dict[tuple[str, str], set[str]]) -> str:
    match = _MAP.fullmatch(line) or _FIELD.fullmatch(line)
    if match is None:
        return line
    before, full_name, after, name, number = match.groups()
    words = written.get((name, number), set())
    fitting = [word for word in _names_of(full_name) if word in words]
    return before + (fitting[0] if len(fitting) == 1 else full_name) + after


def _names_of(full_name: str) -> Iterator[str]:
    """All by which a type may be called: with its scopes, with some of them, or by itself."""
    yield full_name
    while full_name:
        full_name = full_name.partition(".")[2]
        if full_name:
            yield full_name


def _place(line: str, sent: str) -> int:
    match = _OPTION.match(line)
    found = match and re.search(rf"option\s+{re.escape(match[1])}\s*=", sent)
    return found.start() if found else len(sent)
