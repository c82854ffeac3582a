"""Processes of our own must find the same package as this one, wherever that was started."""

import os
from pathlib import Path

import goqueue


def python_path() -> str:
    """PYTHONPATH for a process that is started with `python -P -m goqueue.…`."""
    package = str(Path(goqueue.__file__).parent.parent)
    known = os.environ.get("PYTHONPATH")
    return package if not known else os.pathsep.join((package, known))
