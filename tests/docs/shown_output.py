"""Holds what a page shows against what a command printed.

What differs from run to run may differ: ids, times, durations, paths, and the width of columns.
An id of the page stands for the id of this run from then on, also in the commands that follow.
`…` stands for anything within a line, and on a line of its own for any lines.
"""

import re
from typing import Final

_ID: Final = "id"
_SHAPES: Final = {
    "time": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"
    r"|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT|\b1[789]\d{11}\b",
    _ID: r"\b\d{8}T\d{6}Z-[0-9a-f]{8}\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{11}-\d+-\d+\b"
    r"|(?<![0-9a-f])[0-9a-f]{16,}(?![0-9a-f])|(?<=\")[\w-]{22}(?=\")",
    "duration": r"[+]?\d+(?:\.\d+)? (?:µs|ms|s|min)\b",
    "path": r"(?<!\S)/[\w./-]{3,}",
}
_ANY_SHAPE: Final = re.compile("|".join(f"(?P<{name}>{text})" for name, text in _SHAPES.items()))
_ANYTHING: Final = "…"


class ShownOutput:
    """What the outputs of one page have told so far."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def with_ids_of_this_run(self, command: str) -> str:
        for shown, actual in sorted(self._ids.items(), key=lambda pair: -len(pair[0])):
            command = command.replace(shown, actual)
        return command

    def fits(self, shown: str, printed: str) -> bool:
        return self._lines_fit(_lines(shown), _lines(printed))

    def _lines_fit(self, shown: list[str], printed: list[str]) -> bool:
        if not shown:
            return not printed
        if shown[0].strip() == _ANYTHING:
            return any(
                self._lines_fit(shown[1:], printed[skipped:]) for skipped in range(len(printed) + 1)
            )
        return bool(
            printed and self._fits(shown[0], printed[0]) and self._lines_fit(shown[1:], printed[1:])
        )

    def _fits(self, shown: str, printed: str) -> bool:
        pattern, ids, position = "", [], 0
        for found in _ANY_SHAPE.finditer(shown):
            pattern += _literal(shown[position : found.start()])
            shape = found.lastgroup or ""
            pattern += f"({_SHAPES[shape]})" if shape == _ID else f"(?:{_SHAPES[shape]})"
            ids += [found[0]] if shape == _ID else []
            position = found.end()
        matched = re.fullmatch(pattern + _literal(shown[position:]), printed)
        if matched is None:
            return False
        told = dict(zip(ids, matched.groups(), strict=True))
        if any(self._ids.get(shown_id, actual) != actual for shown_id, actual in told.items()):
            return False
        self._ids |= told
        return True


def _literal(text: str) -> str:
    return re.escape(text).replace(re.escape(_ANYTHING), ".*")


def _lines(text: str) -> list[str]:
    """Without what depends on the widths of columns and of the reader's editor."""
    lines = [re.sub(r"[ \t]{2,}|\t", "  ", line).strip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines
