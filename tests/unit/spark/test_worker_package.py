"""The archive for workers: what goes into it, and which one is taken."""

import json
import platform
import subprocess
import sys
import tarfile
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import goqueue
from goqueue.spark.shipping.package_contents import TASK_PACKAGES, NotPackable, with_requirements
from goqueue.spark.shipping.worker_package import UnfitPackage, check_package, facts_here

_IMPORTED = """
import importlib, json, pkgutil, sys
sys.modules["hypothesis"] = None  # kio would use it
before = set(sys.modules)
import goqueue.client, goqueue.spark
for package in (goqueue.client, goqueue.spark):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        # Pipelines are the driver's.
        if not module.name.startswith("goqueue.spark.pipelines"):
            importlib.import_module(module.name)
import fastavro, numba, pyarrow.fs, pyarrow.parquet
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


def test_what_tasks_import_is_in_the_package() -> None:
    """`tests/spark/test_worker_package.py` also runs it."""
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED], capture_output=True, text=True, check=True, timeout=120
    )
    owners = metadata.packages_distributions()
    imported = {owner for name in json.loads(done.stdout) for owner in owners.get(name, ())}
    packed = with_requirements(TASK_PACKAGES)
    # Both have parts of the package `google`.
    elsewhere = {"goqueue", "pyspark", "py4j", "googleapis-common-protos"}
    assert {canonicalize_name(each) for each in imported} - elsewhere <= set(packed)


def test_requirements_come_along_and_spark_does_not() -> None:
    found = with_requirements(["numba", "pyspark"])
    assert {"numba", "llvmlite", "numpy"} <= set(found)
    assert "pyspark" not in found
    with pytest.raises(NotPackable, match="pip install no-such-thing"):
        with_requirements(["no-such-thing"])


@pytest.mark.parametrize(
    ("python", "version", "message"),
    [
        ("3.99.1", goqueue.__version__, r"has Python 3\.99, and this program runs Python 3\.\d+;"),
        (platform.python_version(), "0.0.1", r"has GoQueue 0\.0\.1, and this program runs"),
    ],
)
def test_a_package_of_another_python_or_goqueue_is_refused(
    tmp_path: Path, python: str, version: str, message: str
) -> None:
    manifest = tmp_path / "goqueue-package.json"
    manifest.write_text(json.dumps(asdict(replace(facts_here(()), python=python, goqueue=version))))
    archive = tmp_path / "package.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(manifest, manifest.name)
    with pytest.raises(UnfitPackage, match=message):
        check_package(archive)


def test_what_is_no_package_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other.tar.gz"
    with tarfile.open(other, "w:gz") as packed:
        packed.add(sys.executable, "python")
    with pytest.raises(UnfitPackage, match="not made by `goqueue pipeline package`"):
        check_package(other)
    with pytest.raises(UnfitPackage, match="No such file or directory; make one with"):
        check_package(tmp_path / "nowhere.tar.gz")
