"""Where the fields of a definition stand in its file."""

from typing import TypeAlias

FieldPath: TypeAlias = tuple[str | int, ...]


class FieldLines:
    """Lines count from 1. A field without a line of its own has that of what it is in."""

    def __init__(self) -> None:
        self._keys: dict[FieldPath, int] = {}
        self._texts: dict[FieldPath, int] = {}

    def set(self, path: FieldPath, line: int, *, text_line: int | None = None) -> None:
        """`text_line` is where the value's first line stands, if it is a text."""
        self._keys[path] = line
        self._texts[path] = text_line or line

    def line(self, path: FieldPath) -> int:
        return self._nearest(self._keys, path)

    def text_line(self, path: FieldPath) -> int:
        return self._nearest(self._texts, path)

    def _nearest(self, lines: dict[FieldPath, int], path: FieldPath) -> int:
        while path:
            if path in lines:
                return lines[path]
            path = path[:-1]
        return 1


def field_name(path: FieldPath) -> str:
    """`source[2].topic`; people count from 1."""
    name = ""
    for part in path:
        if isinstance(part, int):
            name += f"[{part + 1}]"
        else:
            name += f".{part}" if name else part
    return name
