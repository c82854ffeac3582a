"""The inputs of a target, kept as one zip file: small in the repository, and any tool opens it.

A member's name says where it came from (`recorded/`, `generated/`, `found/` by fuzzing, `finding/`
for what once broke the promise) and ends in a digest of its content. Files are written the same way
from the same inputs, so that a change shows only if there is one.
"""

import hashlib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "corpus"
# The oldest that a zip file can say; the time of writing is nobody's business.
_WRITTEN: Final = (1980, 1, 1, 0, 0, 0)

# Inputs by their names.
Corpus = Mapping[str, bytes]


def path_of(target: str) -> Path:
    return FOLDER / f"{target}.zip"


def load(target: str) -> dict[str, bytes]:
    """Nothing if the target has none yet."""
    if not path_of(target).exists():
        return {}
    with zipfile.ZipFile(path_of(target)) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def save(target: str, corpus: Corpus) -> None:
    FOLDER.mkdir(exist_ok=True)
    with zipfile.ZipFile(path_of(target), "w") as packed:
        for name, data in sorted(corpus.items()):
            member = zipfile.ZipInfo(name, _WRITTEN)
            packed.writestr(member, data, zipfile.ZIP_DEFLATED, 9)


def named(origin: str, label: str, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()[:12]
    return f"{origin}/{label}-{digest}" if label else f"{origin}/{digest}"


def add(target: str, origin: str, inputs: Iterable[tuple[str, bytes]]) -> int:
    """Put labelled inputs that are not there yet into the file; returns how many."""
    corpus = load(target)
    known = set(corpus.values())
    fresh = {named(origin, label, data): data for label, data in inputs if data not in known}
    save(target, {**corpus, **fresh})
    return len(fresh)
