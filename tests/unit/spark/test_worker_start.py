"""Python as Spark starts it on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from goqueue.spark.worker_python import worker_python


def test_python_starts_without_sparks_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    script = worker_python()
    assert Path(script).is_relative_to(tmp_path)
    assert worker_python() == script
    home = Path(pyspark.__file__).parent
    ours = tmp_path / "with space"
    ours.mkdir()
    (ours / "of_ours.py").touch()
    path = [home / "python" / "lib" / "pyspark.zip", home / "jars" / "spark-core.jar", ours]
    code = "import of_ours, pyspark, sys; print(pyspark.__file__, sys.argv[1:])"
    found = subprocess.run(
        [script, "-c", code, "a b"],
        env=os.environ | {"PYTHONPATH": ":".join(map(str, path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == f"{pyspark.__file__} ['a b']"


def test_another_spark_keeps_its_zip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert worker_python() == sys.executable


def test_sparks_processes_do_not_load_hypothesis(tmp_path: Path) -> None:
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "some_worker.py").write_text(
        "import sys\n"
        "from goqueue.spark.worker_imports import import_kio_alone\n"
        "import_kio_alone()\n"
        "import kio.schema.types\n"
        "assert 'hypothesis' not in sys.modules\n"
        "import hypothesis\n"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    }
    subprocess.run([sys.executable, "-m", "pyspark.some_worker"], env=environment, check=True)
