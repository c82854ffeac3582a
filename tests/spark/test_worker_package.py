"""The archive for workers, run as on a machine that has no Python."""

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pyspark
import pytest

from goqueue.spark.shipping import worker_package
from goqueue.spark.shipping.worker_package import check_package, read_facts, write_package

# All that tasks run, as a worker of Spark imports it.
_IMPORTS = """
import importlib, json, pkgutil, sys
import goqueue.client, goqueue.spark
for package in (goqueue.client, goqueue.spark):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.startswith("goqueue.spark.pipelines"):
            importlib.import_module(module.name)
import ctypes, fastavro, numba, pyarrow.fs, pyarrow.parquet, pyspark_goqueue, ssl
print(json.dumps([goqueue.__file__, numba.__file__, sys.prefix, ssl.__file__]))
"""


@pytest.mark.slow
def test_the_package_runs_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_package, "_COMPRESSION_LEVEL", 0)
    archive, moved = tmp_path / "package.tar.gz", tmp_path / "elsewhere"
    facts = write_package(archive)
    check_package(archive)
    assert read_facts(archive) == facts
    assert facts.packages["numba"]
    assert "pyspark" not in facts.packages
    with tarfile.open(archive) as packed:
        packed.extractall(moved, filter="tar")
    zips = Path(pyspark.__file__).parent / "python" / "lib"
    done = subprocess.run(
        ["./bin/python", "-c", _IMPORTS],
        cwd=moved,
        # Spark's own on every node, and nothing else of this machine's.
        env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(map(str, zips.glob("*.zip")))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for place in json.loads(done.stdout):
        assert Path(place).is_relative_to(moved), place
