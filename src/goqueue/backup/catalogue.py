"""The names in a store, and what is kept under them.

backups/<id>.manifest    a backup; written last
objects/ab/abcd…         chunks and metadata, by the SHA-256 of their content
running/<id>             a command at work: see `running.py`
"""

import re
from collections.abc import Iterator
from typing import Final

from goqueue.backup.chunks import check_content
from goqueue.backup.errors import BackupDamaged, BackupFailed
from goqueue.backup.manifest import MANIFEST_BYTES_MAX, Manifest, decode, encode, is_backup_id
from goqueue.backup.stores import Store

_MANIFESTS: Final = "backups"
_OBJECTS: Final = "objects"
_SUFFIX: Final = ".manifest"
_OBJECT_NAME: Final = re.compile(rf"{_OBJECTS}/([0-9a-f]{{2}})/(\1[0-9a-f]{{62}})", re.ASCII)
LATEST: Final = "latest"


class Catalogue:
    def __init__(self, store: Store) -> None:
        self.store = store

    # --- backups --------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """Oldest first."""
        names = (found.name for found in self.store.names(_MANIFESTS))
        ids = (name.removeprefix(f"{_MANIFESTS}/").removesuffix(_SUFFIX) for name in names)
        return sorted(filter(is_backup_id, ids))

    def find(self, wanted: str) -> Manifest:
        """By its id, or the newest for `latest`."""
        if wanted == LATEST:
            ids = self.ids()
            if not ids:
                raise BackupFailed(
                    f"{self.store.address} has no backup; make one with `goqueue backup create`"
                )
            wanted = ids[-1]
        if not is_backup_id(wanted):
            raise BackupFailed(
                f"{wanted!r} is not the id of a backup, such as 20260131T120000Z-0123abcd; "
                "see `goqueue backup list`"
            )
        return self._read(wanted)

    def manifests(self) -> Iterator[Manifest]:
        """Oldest first."""
        for each in self.ids():
            yield self._read(each)

    def newest_of(self, cluster_id: str) -> Manifest | None:
        """The last backup of the same cluster that can be read; a damaged one is of no use."""
        for each in reversed(self.ids()):
            try:
                manifest = self._read(each)
            except BackupDamaged:
                continue
            if manifest.cluster_id == cluster_id:
                return manifest
        return None

    def write(self, manifest: Manifest) -> None:
        """From here on there is a backup."""
        self.store.put(_manifest_name(manifest.id), encode(manifest))

    def remove(self, backup: str) -> None:
        self.store.remove(_manifest_name(backup))

    def _read(self, backup: str) -> Manifest:
        try:
            content = self.store.get(_manifest_name(backup), size_max=MANIFEST_BYTES_MAX)
        except FileNotFoundError:
            raise BackupFailed(
                f"{self.store.address} has no backup {backup}; see `goqueue backup list`"
            ) from None
        return decode(content, backup)

    # --- objects --------------------------------------------------------------------------

    def has(self, sha: str, size: int) -> bool:
        return self.store.size(_object_name(sha)) == size

    def put(self, sha: str, content: bytes) -> None:
        self.store.put(_object_name(sha), content)

    def get(self, sha: str, size: int) -> bytes:
        """What was once written, else `BackupDamaged`."""
        try:
            content = self.store.get(_object_name(sha), size_max=size)
        except FileNotFoundError:
            raise BackupDamaged(f"object {sha} is missing") from None
        check_content(content, sha, size)
        return content

    def objects(self) -> dict[str, int]:
        """Name -> size of all that are there."""
        found = {}
        for each in self.store.names(_OBJECTS):
            if match := _OBJECT_NAME.fullmatch(each.name):
                found[match[2]] = each.size
        return found

    def remove_object(self, sha: str) -> None:
        self.store.remove(_object_name(sha))


def _manifest_name(backup: str) -> str:
    return f"{_MANIFESTS}/{backup}{_SUFFIX}"


def _object_name(sha: str) -> str:
    return f"{_OBJECTS}/{sha[:2]}/{sha}"
