"""The archive for `spark.archives`: made here, unpacked by each worker beside its tasks."""

import io
import json
import os
import platform
import sys
import tarfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import goqueue
from goqueue.model.errors import InvalidRequest
from goqueue.spark.shipping.package_contents import (
    BIN,
    LIBRARIES,
    PACKAGES,
    TASK_PACKAGES,
    PackedFile,
    own_files,
    package_files,
    python_files,
    with_requirements,
)

# Spark unpacks the archive into a folder of this name where the worker's tasks run.
FOLDER: Final = "goqueue-env"
WORKER_PYTHON: Final = f"./{FOLDER}/{BIN}/python"
_MANIFEST: Final = "goqueue-package.json"
# 222 MB in 12 s of processor time; level 1 makes it 8 % larger in three quarters of the time, level
# 6 makes it 3 % smaller in twice the time.
_COMPRESSION_LEVEL: Final = 4
# Runs the Python beside it, with its packages before those that the worker may have.
_LAUNCHER: Final = """#!/bin/sh
home=$(cd "${{0%/*}}/.." && pwd)
export PYTHONPATH="$home/{packages}${{PYTHONPATH:+:$PYTHONPATH}}" PYTHONNOUSERSITE=1
export LD_LIBRARY_PATH="${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}$home/{libraries}"
unset PYTHONHOME
exec "$home/{bin}/{python}" "$@"
"""


class UnfitPackage(InvalidRequest):
    """No package of GoQueue's, or one that does not fit this driver."""

    code = "unfit_package"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFacts:
    """What an archive says of itself."""

    goqueue: str
    python: str
    # Such as linux-x86_64.
    platform: str
    # Workers need this version of it or a later one.
    libc: str
    packages: dict[str, str]

    @property
    def minor_python(self) -> str:
        return minor_version(self.python)


def minor_version(python: str) -> str:
    return ".".join(python.split(".")[:2])


def facts_here(packages: Iterable[str]) -> PackageFacts:
    return PackageFacts(
        goqueue=goqueue.__version__,
        python=platform.python_version(),
        platform=f"{sys.platform}-{platform.machine()}",
        libc=" ".join(platform.libc_ver()),
        packages={name: metadata.version(name) for name in packages},
    )


def default_name() -> str:
    facts = facts_here(())
    return f"goqueue-{facts.goqueue}-py{facts.minor_python}-{facts.platform}.tar.gz"


def write_package(target: Path, also: Iterable[str] = ()) -> PackageFacts:
    """Make the archive; `also` are further installed packages, which come with what they need."""
    names = with_requirements([*TASK_PACKAGES, *also])
    facts = facts_here(names)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=_COMPRESSION_LEVEL) as archive:
            _add_text(archive, _MANIFEST, json.dumps(asdict(facts), indent=2) + "\n")
            _add_text(archive, f"{BIN}/python", _launcher(facts), mode=0o755)
            for file in (*python_files(), *package_files(names), *own_files()):
                _add_file(archive, file)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return facts


def read_facts(path: Path) -> PackageFacts:
    """They stand first, so that nothing else has to be unpacked."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            first = archive.next()
            if first is None or first.name != _MANIFEST or not first.isfile():
                raise ValueError("it was not made by `goqueue pipeline package`")
            content = archive.extractfile(first)
            assert content is not None, "a file has content"
            return PackageFacts(**json.loads(content.read()))
    except (OSError, ValueError, TypeError, tarfile.TarError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnfitPackage(
            f"package {path} cannot be used: {reason}; make one with `goqueue pipeline package`"
        ) from None


def check_package(path: Path) -> None:
    """Driver and workers exchange pickled objects: that needs the same Python and GoQueue."""
    found, here = read_facts(path), facts_here(())
    for what, theirs, ours in (
        ("Python", found.minor_python, here.minor_python),
        ("GoQueue", found.goqueue, here.goqueue),
    ):
        if theirs != ours:
            raise UnfitPackage(
                f"package {path} has {what} {theirs}, and this program runs {what} {ours}; make it "
                "anew with `goqueue pipeline package`, by the Python that runs this program"
            )


def _launcher(facts: PackageFacts) -> str:
    return _LAUNCHER.format(
        packages=PACKAGES, libraries=LIBRARIES, bin=BIN, python=f"python{facts.minor_python}"
    )


def _add_text(archive: tarfile.TarFile, path: str, text: str, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    content = text.encode()
    entry.size, entry.mode, entry.mtime = len(content), mode, int(time.time())
    archive.addfile(entry, io.BytesIO(content))


def _add_file(archive: tarfile.TarFile, file: PackedFile) -> None:
    entry = archive.gettarinfo(file.source, file.path)
    # Links are followed, and what belongs to root here belongs to whoever runs the worker there.
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    with file.source.open("rb") as content:
        archive.addfile(entry, content)
