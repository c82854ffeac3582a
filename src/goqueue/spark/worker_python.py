"""The Python that Spark starts on this machine: as fast as the one that is installed can be.

Spark puts a zip of pyspark before all else that its Python processes import. Of a zip Python keeps
no compiled code, so each process compiles pyspark anew: 0.9 s of a core, where the same pyspark
from its package takes 0.3 s. Every stream starts such a process.
"""

import os
import shlex
import sys
import sysconfig
from pathlib import Path
from typing import Final

from goqueue.spark.start_script import start_script

_SCRIPT: Final = """#!/bin/sh
# Starts Python without Spark's zip of pyspark, which is installed here and compiled already.
rest=
IFS=:
for each in $PYTHONPATH; do
    case "$each" in
        */pyspark/python/lib/*.zip | */pyspark/jars/*.jar) ;;
        *) rest="$rest${rest:+:}$each" ;;
    esac
done
unset IFS
PYTHONPATH="$rest" exec {python} "$@"
"""


def worker_python() -> str:
    """This Python, or a script that starts it; plain where Spark is not the package beside it."""
    import pyspark

    home = Path(pyspark.__file__).parent
    installed = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    other = os.environ.get("SPARK_HOME")
    if os.name != "posix" or home.parent not in installed or other not in (None, str(home)):
        return sys.executable
    content = _SCRIPT.replace("{python}", shlex.quote(sys.executable))
    return str(start_script("python", "python", content))
