"""A snapshot and the log of what came after it, in one directory. Blocking; one thread at a time.

Files carry a generation: `snapshot-<g>` is the state when generation g began and `log-<g>` what
came after. A new generation begins when the log has grown enough, and on every open: what an
earlier process wrote but perhaps never saw synced is then written afresh, and a torn tail is left
behind with the old log. A clean close seals the log with an empty frame, so that damage to the
last entry cannot be taken for a torn tail.

Steps of a new generation, each safe to stop after: write `log-<g+1>` (empty), write
`snapshot-<g+1>`, remove the old two. The snapshot's rename is the moment that counts: without
it the new log is ignored, with it the old files are.
"""

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.metadata.files import Files
from goqueue.metadata.framing import (
    FORMAT_VERSION,
    FRAME_OVERHEAD_BYTES,
    HEADER_SIZE_BYTES,
    decode_frames,
    decode_header,
    encode_frame,
    encode_header,
)
from goqueue.model.errors import MetadataCorrupt

_LOG: Final = "log"
_SNAPSHOT: Final = "snapshot"
_MAGIC: Final = {_LOG: b"gqmdlog\0", _SNAPSHOT: b"gqmdsnap"}
_NAME: Final = re.compile(rf"({_LOG}|{_SNAPSHOT})-(\d{{20}})")
_TEMPORARY_SUFFIX: Final = ".tmp"
_SALT_SIZE_BYTES: Final = 4
_SEAL: Final = b""

_WHAT_TO_DO: Final = (
    "Nothing was changed, and the messages are stored elsewhere. Restore the whole folder from a "
    "backup taken while the broker was stopped; do not remove single files from it"
)


class Recovered(NamedTuple):
    snapshot: bytes
    entries: list[bytes]


class Journal:
    """First `recover`, then `roll` with the state that led to; then `append` until `close`."""

    def __init__(self, directory: Path, files: Files) -> None:
        self._directory = directory
        self._files = files
        self._file = -1
        self._generation = 0
        self._salt = 0
        self._sequence = 0
        self.log_size_bytes = 0
        self.snapshot_size_bytes = 0

    def recover(self) -> Recovered | None:
        """What is stored, None for a new directory. Changes nothing; damage is refused."""
        self._files.make_directory(self._directory)
        found = self._generations()
        snapshots = found[_SNAPSHOT]
        if not snapshots:
            # A first start that stopped half-way has at most an empty first log.
            for generation in found[_LOG]:
                if self._read(_LOG, generation):
                    raise self._corrupt(_SNAPSHOT, generation, "is missing")
            return None
        self._generation = max(snapshots)
        snapshot, *more = self._read(_SNAPSHOT, self._generation)
        if more:
            raise self._corrupt(_SNAPSHOT, self._generation, "has more than one entry")
        if self._generation not in found[_LOG]:
            raise self._corrupt(_LOG, self._generation, "is missing")
        for generation in found[_LOG]:
            if generation > self._generation and self._read(_LOG, generation):
                raise self._corrupt(_SNAPSHOT, generation, "is missing")
        payloads = self._read(_LOG, self._generation)
        return Recovered(snapshot, [payload for payload in payloads if payload != _SEAL])

    def append(self, payload: bytes) -> None:
        """On return `payload` is safe. After an error no more may be appended before a `roll`."""
        frame = encode_frame(payload, sequence=self._sequence, salt=self._salt)
        self._files.write(self._file, frame)
        self._files.sync(self._file)
        self._sequence += 1
        self.log_size_bytes += len(frame)

    def cut_back(self) -> None:
        """Take away what a failed `append` left: nobody was told that it is stored."""
        self._files.truncate(self._file, self.log_size_bytes)

    def roll(self, snapshot: bytes) -> None:
        """Begin a new generation. After an error no more may be appended before one that worked."""
        generation = self._generation + 1
        salt = int.from_bytes(os.urandom(_SALT_SIZE_BYTES), "big")
        log = self._write_whole(_LOG, generation, encode_header(_MAGIC[_LOG], generation, salt))
        body = encode_frame(snapshot, sequence=0, salt=salt)
        header = encode_header(_MAGIC[_SNAPSHOT], generation, salt)
        self._write_whole(_SNAPSHOT, generation, header + body)
        opened = self._files.open_to_append(log)
        if self._file != -1:
            self._files.close(self._file)
        self._file = opened
        self._generation, self._salt, self._sequence = generation, salt, 0
        self.log_size_bytes = HEADER_SIZE_BYTES
        self.snapshot_size_bytes = len(snapshot) + HEADER_SIZE_BYTES + FRAME_OVERHEAD_BYTES
        self._remove_all_but_current()

    def close(self, *, seal: bool) -> None:
        if self._file == -1:
            return
        try:
            if seal:
                self.append(_SEAL)
        finally:
            self._files.close(self._file)
            self._file = -1

    def _write_whole(self, kind: str, generation: int, data: bytes) -> Path:
        path = self._path(kind, generation)
        temporary = path.with_name(path.name + _TEMPORARY_SUFFIX)
        file = self._files.create(temporary)
        try:
            self._files.write(file, data)
            self._files.sync(file)
        finally:
            self._files.close(file)
        self._files.rename(temporary, path)
        self._files.sync_directory(self._directory)
        return path

    def _remove_all_but_current(self) -> None:
        current = {self._path(kind, self._generation).name for kind in _MAGIC}
        for name in self._files.names(self._directory):
            ours = _NAME.fullmatch(name.removesuffix(_TEMPORARY_SUFFIX))
            if ours and name not in current:
                self._files.remove(self._directory / name)

    def _generations(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {kind: [] for kind in _MAGIC}
        for name in self._files.names(self._directory):
            if match := _NAME.fullmatch(name):
                found[match[1]].append(int(match[2]))
        return found

    def _read(self, kind: str, generation: int) -> list[bytes]:
        data = self._files.read(self._path(kind, generation))
        header = decode_header(data)
        if header is None or header.magic != _MAGIC[kind]:
            raise self._corrupt(kind, generation, "has a damaged header")
        if header.version != FORMAT_VERSION:
            raise MetadataCorrupt(
                f"{self._path(kind, generation)} has format version {header.version}; this "
                f"release reads {FORMAT_VERSION}. Start the release that wrote it"
            )
        if header.generation != generation:
            raise self._corrupt(kind, generation, f"was written as generation {header.generation}")
        frames = decode_frames(data, salt=header.salt)
        if frames.damage_at is not None:
            raise self._corrupt(kind, generation, f"is damaged at byte {frames.damage_at}")
        if kind == _SNAPSHOT and (not frames.payloads or frames.end != len(data)):
            raise self._corrupt(kind, generation, f"is damaged at byte {frames.end}")
        return frames.payloads

    def _path(self, kind: str, generation: int) -> Path:
        return self._directory / f"{kind}-{generation:020}"

    def _corrupt(self, kind: str, generation: int, what: str) -> MetadataCorrupt:
        return MetadataCorrupt(f"{self._path(kind, generation)} {what}. {_WHAT_TO_DO}")
