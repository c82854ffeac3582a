"""Functions compiled to machine code, once per machine and user.

The compiled code is kept on disk: in `__pycache__` beside the source, or where that cannot be
written, in a folder of the user's; `NUMBA_CACHE_DIR` names another. Where there is none at all,
each process compiles for itself. Compiled code holds no Python object, and threads go on.
"""

import contextlib
import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def native(function: Function) -> Function:
    """Compile when first called. Arguments are numbers, addresses and numpy arrays."""
    from numba import njit

    how: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
    try:
        compiled = njit(cache=True, **how)(function)
    except RuntimeError:  # no folder to keep it in
        return cast(Function, njit(**how)(function))
    # Numba holds kept code against the function's own file, but what a function calls in others is
    # compiled into it.
    kept = compiled._cache._cache_file
    kept._source_stamp = kept._source_stamp, sources_stamp()
    return cast(Function, compiled)


@cache
def sources_stamp(package: Path = Path(__file__).parent) -> str:
    """Changes with every file that has such functions."""
    found = hashlib.sha256()
    for pattern in ("native_*.py", "source/**/*.py", "sink/*.py"):
        for path in sorted(package.glob(pattern)):
            content = path.read_bytes()
            if b"@native" in content:
                found.update(content)
    return found.hexdigest()


def load_compiled(source: str, load: Callable[[], object]) -> None:
    """Run `load`, which calls the functions of the file `source` for the first time.

    Compiling takes seconds of a core. When a machine's workers all begin at once, one of them
    compiles, and the others wait and load what it has kept.
    """
    with contextlib.ExitStack() as stack:
        noted = _note_of(source)
        if noted is not None and not noted.exists():
            stack.enter_context(_locked(noted.with_suffix(".lock")))
        load()
        if noted is not None:
            with contextlib.suppress(OSError):
                noted.touch()


def _note_of(source: str) -> Path | None:
    """Exists once the file in its present state is compiled. None if there is no place for it."""
    folder = Path(tempfile.gettempdir()) / f"goqueue-compiled-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        state = f"{source} {Path(source).stat().st_mtime_ns} {sources_stamp()}"
        # Another user may have made it first, to mislead: the worst would be compiling twice, or
        # waiting for a lock that somebody else holds.
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return None
    except OSError:
        return None
    state += f" {sys.version} {os.environ.get('NUMBA_CACHE_DIR', '')}"
    return folder / hashlib.sha256(state.encode()).hexdigest()[:32]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Without it nothing goes wrong, only slower: so no error is one."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
