"""Object stores, by Arrow's file systems: S3 and what speaks its API, Google Cloud, Azure."""

import os
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from pyarrow import ArrowException, fs

from goqueue.backup.errors import BackupDamaged, BackupFailed
from goqueue.backup.stores import Found

_READ_BYTES: Final = 8 * 1024 * 1024
_S3: Final = ("s3", "s3a")
# Folders of these are a part of the names.
_FLAT: Final = frozenset({"s3", "gcs", "abfs"})
# Any will do for a server of one's own, but requests are signed for one.
_ANY_REGION: Final = "us-east-1"


class ObjectStore:
    """An upload that was cut short leaves nothing under its name, by what these stores promise."""

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            self._files, path = _open(address)
        except (ArrowException, OSError, ValueError) as error:
            raise BackupFailed(
                f"{address} is no address of a store: {error}; give a folder, or a URL such as "
                "s3://bucket/path"
            ) from error
        self._path = path.rstrip("/")
        is_without_bucket = self._files.type_name in _FLAT and self._path.startswith("/")
        if not self._path or is_without_bucket:
            raise BackupFailed(f"{address} names no bucket; give s3://bucket/path")

    def put(self, name: str, content: bytes) -> None:
        full = self._full(name)
        if self._files.type_name not in _FLAT:
            self._files.create_dir(full.rpartition("/")[0], recursive=True)
        with self._files.open_output_stream(full) as stream:
            stream.write(content)

    def get(self, name: str, *, size_max: int) -> bytes:
        parts, size = [], 0
        with self._files.open_input_stream(self._full(name), buffer_size=None) as stream:
            while part := stream.read(_READ_BYTES):
                size += len(part)
                if size > size_max:
                    raise BackupDamaged(f"{name} has more than {size_max} bytes")
                parts.append(part)
        return b"".join(parts)

    def size(self, name: str) -> int | None:
        found = self._files.get_file_info(self._full(name))
        return found.size if found.type is fs.FileType.File else None

    def names(self, folder: str) -> Iterator[Found]:
        wanted = fs.FileSelector(self._full(folder), allow_not_found=True, recursive=True)
        everything = self._files.get_file_info(wanted)
        if not everything:
            self._check_bucket()
        for found in everything:
            if found.type is fs.FileType.File:
                yield Found(found.path.removeprefix(self._path + "/"), found.size or 0)

    def remove(self, name: str) -> None:
        if self.size(name) is not None:
            self._files.delete_file(self._full(name))

    def _check_bucket(self) -> None:
        """Of a bucket that is not there, a store lists as little as of an empty one."""
        bucket = self._path.partition("/")[0]
        if self._files.type_name not in _FLAT:
            return
        try:
            is_there = self._files.get_file_info(bucket).type is not fs.FileType.NotFound
        except OSError:
            # Somebody may have rights to a part of it only.
            return
        if not is_there:
            raise FileNotFoundError(f"there is no bucket {bucket!r}")

    def _full(self, name: str) -> str:
        return f"{self._path}/{name}"


def _open(address: str) -> tuple[fs.FileSystem, str]:
    """AWS' own variables name keys and region; AWS_ENDPOINT_URL is for servers of one's own."""
    place = urlsplit(address)
    if place.scheme not in _S3:
        return fs.FileSystem.from_uri(address)
    given: dict[str, Any] = {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        server = urlsplit(endpoint)
        given |= {"scheme": server.scheme, "endpoint_override": server.netloc}
        given["region"] = _ANY_REGION
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        given["region"] = region
    return fs.S3FileSystem(**given), f"{place.netloc}{place.path}"
