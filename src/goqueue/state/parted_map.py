"""A mapping that is replaced, never changed, and of which a change copies little.

Of a hundred thousand rules a copy takes milliseconds, on every broker and for every change. Here
the entries are in parts by a checksum of their names; a change makes new ones of the parts that it
touches, and two mappings differ only in parts that are not the same object.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar, overload
from zlib import crc32

T = TypeVar("T")
V_co = TypeVar("V_co", covariant=True)

# Of 100,000 entries a part has 200; the tuple of the parts is copied with each change.
_PARTS: Final = 512
_NOTHING: Final[Mapping[str, Any]] = {}


class PartedMap(Mapping[str, V_co]):
    """In no order that means anything, but the same one wherever there are the same names."""

    __slots__ = ("_length", "_parts")

    def __init__(self, entries: Mapping[str, V_co] = _NOTHING) -> None:
        self._parts: tuple[Mapping[str, V_co], ...] = (_NOTHING,) * _PARTS
        self._length = 0
        if entries:
            filled = self.changed(entries)
            self._parts, self._length = filled._parts, filled._length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        for part in self._parts:
            yield from part

    def __getitem__(self, name: str) -> V_co:
        return self._parts[_number(name)][name]

    @overload
    def get(self, name: str, default: None = None, /) -> V_co | None: ...
    @overload
    def get(self, name: str, default: V_co | T, /) -> V_co | T: ...
    def get(self, name: str, default: Any = None, /) -> Any:
        """Asked for with every request; that of `Mapping` is slow."""
        return self._parts[_number(name)].get(name, default)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartedMap):
            return self._parts == other._parts
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def changed(self, edits: Mapping[str, Any]) -> "PartedMap[V_co]":
        """With the entries of `edits`; None takes one out."""
        parts, length = list(self._parts), self._length
        copied: dict[int, dict[str, V_co]] = {}
        for name, value in edits.items():
            number = _number(name)
            part = copied.get(number)
            if part is None:
                part = copied[number] = dict(parts[number])
            length -= len(part)
            if value is None:
                part.pop(name, None)
            else:
                part[name] = value
            length += len(part)
        for number, part in copied.items():
            parts[number] = part or _NOTHING
        changed: PartedMap[V_co] = PartedMap()
        changed._parts, changed._length = tuple(parts), length
        return changed

    def differences(
        self, before: "PartedMap[V_co]"
    ) -> Iterator[tuple[str, V_co | None, V_co | None]]:
        """Names with what they stood for before and what they stand for now."""
        for was, part in zip(before._parts, self._parts, strict=True):
            if was is part:
                continue
            for name in was.keys() | part.keys():
                old, new = was.get(name), part.get(name)
                if old is not new and old != new:
                    yield name, old, new


def _number(name: str) -> int:
    # Names that clients send may have halves of surrogate pairs.
    return crc32(name.encode("utf-8", "surrogatepass")) % _PARTS
