"""Spark's Kafka connector and its Avro functions, fetched by Spark's own resolution (Ivy).

There are none for the Spark that GoQueue runs on: of the connector 4.2.0 is the latest that was
published, of its token provider 4.0.0, of the Avro functions 4.0.1. They run on Spark 4.3. Of the
Protobuf functions there is none that does.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyspark

from bench.artifacts import CACHE, Missing, run_tool
from goqueue.model.errors import GoQueueError
from goqueue.spark.java_home import find_java_home

CONNECTOR_VERSION: Final = "4.2.0"
TOKEN_PROVIDER_VERSION: Final = "4.0.0"
AVRO_VERSION: Final = "4.0.1"
_AVRO: Final = "spark-avro_2.13"
_GROUP: Final = "org.apache.spark"
_CONNECTOR: Final = "spark-sql-kafka-0-10_2.13"
_TOKEN_PROVIDER: Final = "spark-token-provider-kafka-0-10_2.13"
# What they need and Spark does not bring; it has newer versions of all else.
_NEEDED: Final = (_CONNECTOR, _TOKEN_PROVIDER, "kafka-clients", "commons-pool2")


def connector_jars() -> list[Path]:
    folder = CACHE / f"{_CONNECTOR}-{CONNECTOR_VERSION}"
    if not folder.is_dir():
        _fetch(folder)
    return sorted(folder.glob("*.jar"))


def avro_jars() -> list[Path]:
    folder = CACHE / f"{_AVRO}-{AVRO_VERSION}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(prefix="bench-spark-jars-") as name:
            ivy = Path(name) / "ivy"
            _resolve(ivy, f"{_GROUP}:{_AVRO}:{AVRO_VERSION}", [])
            _keep([jar for jar in (ivy / "jars").iterdir() if _AVRO in jar.name], folder)
    return sorted(folder.glob("*.jar"))


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-spark-jars-") as name:
        ivy = Path(name) / "ivy"
        # Twice, for within one resolution the connector's wish for its own version would win.
        _resolve(ivy, f"{_GROUP}:{_CONNECTOR}:{CONNECTOR_VERSION}", [f"{_GROUP}:{_TOKEN_PROVIDER}"])
        _resolve(
            ivy,
            f"{_GROUP}:{_TOKEN_PROVIDER}:{TOKEN_PROVIDER_VERSION}",
            ["org.apache.kafka:kafka-clients", "org.apache.hadoop:hadoop-client-runtime"],
        )
        found = [
            jar for jar in (ivy / "jars").iterdir() if any(each in jar.name for each in _NEEDED)
        ]
        if len(found) != len(_NEEDED):
            raise Missing(f"the connector came as {sorted(jar.name for jar in found)}")
        _keep(found, folder)


def _keep(jars: list[Path], folder: Path) -> None:
    arriving = folder.with_name(f"{folder.name}.arriving")
    shutil.rmtree(arriving, ignore_errors=True)
    arriving.mkdir(parents=True)
    for jar in jars:
        shutil.copy(jar, arriving)
    arriving.rename(folder)


def _resolve(ivy: Path, package: str, excluded: list[str]) -> None:
    program = ivy.parent / "nothing.py"
    program.touch()
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--packages", package]
    command += ["--exclude-packages", ",".join(excluded), "--conf", f"spark.jars.ivy={ivy}"]
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        # Ivy would also look into Maven's local repository, and stop at what is half there.
        "SPARK_SUBMIT_OPTS": f"-Duser.home={ivy.parent}",
    }
    try:
        java_home = find_java_home()
    except GoQueueError as error:
        raise Missing(str(error)) from error
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    try:
        run_tool([*command, str(program)], env=environment)
    except Missing as error:
        raise Missing(
            f"{package} cannot be fetched: it needs access to Maven Central, or its jars in a "
            f"folder of its name below {CACHE.relative_to(CACHE.parent.parent)}"
        ) from error
