"""Which backups stay, and which objects nobody needs any more. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from goqueue.backup.manifest import Manifest


class Prune(NamedTuple):
    kept: list[str]
    removed: list[str]


def choose(taken_at_ms: Mapping[str, int], *, keep: int, since_ms: int | None) -> Prune:
    """The newest `keep` stay, and all that were taken at `since_ms` or later.

    `taken_at_ms` has every backup of the store by its id.
    """
    newest_first = sorted(taken_at_ms, key=lambda each: (taken_at_ms[each], each), reverse=True)
    kept: list[str] = []
    removed: list[str] = []
    for position, each in enumerate(newest_first):
        stays = position < keep or (since_ms is not None and taken_at_ms[each] >= since_ms)
        (kept if stays else removed).append(each)
    return Prune(kept, removed)


def unneeded(stored: Iterable[str], kept: Collection[Manifest]) -> list[str]:
    """Objects that no backup refers to: those of removed backups, and of ones that never ended."""
    needed = {sha for manifest in kept for sha in manifest.objects()}
    return sorted(set(stored) - needed)
