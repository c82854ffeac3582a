"""Tables and checkpoints in object stores with S3's API: one set of settings for three readers.

Spark reads files by Hadoop's s3a, `deltalake` by its own client, tasks write by Arrow's. Whoever
has set up one of them has set up all: what Hadoop's settings, the AWS_* variables or the options
of delta-rs say is brought to the words of each.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import pyarrow.fs
    from pyspark.sql import SparkSession

# A setting of the session for each option of delta-rs: spark.goqueue.storage.AWS_REGION and so on.
STORAGE_PREFIX: Final = "spark.goqueue.storage."
_HADOOP_PREFIX: Final = "fs.s3a."
_S3_SCHEMES: Final = ("s3", "s3a", "s3n")
# delta-rs' and AWS' names, and Hadoop's.
_HADOOP_NAMES: Final = {
    "AWS_ACCESS_KEY_ID": "access.key",
    "AWS_SECRET_ACCESS_KEY": "secret.key",
    "AWS_SESSION_TOKEN": "session.token",
    "AWS_ENDPOINT_URL": "endpoint",
    "AWS_REGION": "endpoint.region",
}
_ENDPOINT: Final = "AWS_ENDPOINT_URL"
_ALLOW_HTTP: Final = "AWS_ALLOW_HTTP"
_LOCKING: Final = "AWS_S3_LOCKING_PROVIDER"
_CONDITIONAL_PUT: Final = "AWS_CONDITIONAL_PUT"
# Other variables of these clients, as they are.
_VARIABLES: Final = (*_HADOOP_NAMES, "AWS_DEFAULT_REGION", _ALLOW_HTTP, _LOCKING, _CONDITIONAL_PUT)
# Spark's own default, which is no choice of anybody's.
_NO_ENDPOINT: Final = "s3.amazonaws.com"
# Any will do for a server of one's own, but requests are signed for one.
_ANY_REGION: Final = "us-east-1"


def is_s3(uri: str) -> bool:
    return urlsplit(uri).scheme in _S3_SCHEMES if "://" in uri else False


def table_uri(uri: str) -> str:
    """As deltalake and Arrow name it."""
    return f"s3://{uri.partition('://')[2]}" if is_s3(uri) else uri


def spark_uri(uri: str) -> str:
    """As Hadoop names it."""
    return f"s3a://{uri.partition('://')[2]}" if is_s3(uri) else uri


def storage_options(uri: str) -> dict[str, str]:
    """What delta-rs needs to reach an address: the session's settings before the environment's."""
    if not is_s3(uri):
        return {}
    found = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    if "AWS_DEFAULT_REGION" in found:
        found.setdefault("AWS_REGION", found.pop("AWS_DEFAULT_REGION"))
    spark = _session()
    if spark is not None:
        found |= _hadoop_options(spark, urlsplit(uri).netloc)
        found |= _own_options(spark)
    if _ENDPOINT in found:
        found.setdefault("AWS_REGION", _ANY_REGION)
        if found[_ENDPOINT].startswith("http://"):
            found.setdefault(_ALLOW_HTTP, "true")
    if _LOCKING not in found:
        # Of two writers of a commit, the store itself refuses one.
        found.setdefault(_CONDITIONAL_PUT, "etag")
    return found


def spark_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's settings that say the same as those of ours that a session is made with."""
    found = {}
    for option, name in _HADOOP_NAMES.items():
        if given := settings.get(STORAGE_PREFIX + option) or os.environ.get(option):
            found[f"spark.hadoop.{_HADOOP_PREFIX}{name}"] = given
    if f"spark.hadoop.{_HADOOP_PREFIX}endpoint" in found:
        # Servers of one's own rarely have a name for each bucket.
        found[f"spark.hadoop.{_HADOOP_PREFIX}path.style.access"] = "true"
        found.setdefault(f"spark.hadoop.{_HADOOP_PREFIX}endpoint.region", _ANY_REGION)
    return found


def file_system(uri: str, options: Mapping[str, str]) -> "tuple[pyarrow.fs.FileSystem, str]":
    """Arrow's, and the path within it."""
    from pyarrow import fs

    if "://" not in uri and not uri.startswith("file:"):
        return fs.LocalFileSystem(), str(Path(uri).absolute())
    if not is_s3(uri):
        return fs.FileSystem.from_uri(uri)
    place = urlsplit(uri)
    arguments: dict[str, Any] = {}
    for option, name in (
        ("AWS_ACCESS_KEY_ID", "access_key"),
        ("AWS_SECRET_ACCESS_KEY", "secret_key"),
        ("AWS_SESSION_TOKEN", "session_token"),
        ("AWS_REGION", "region"),
    ):
        if option in options:
            arguments[name] = options[option]
    if _ENDPOINT in options:
        endpoint = urlsplit(options[_ENDPOINT])
        arguments["scheme"], arguments["endpoint_override"] = endpoint.scheme, endpoint.netloc
    return fs.S3FileSystem(**arguments), f"{place.netloc}{place.path}".rstrip("/")


def _session() -> "SparkSession | None":
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:  # a task, or a program without Spark
        return None


def _hadoop_options(spark: "SparkSession", bucket: str) -> dict[str, str]:
    """Settings of the bucket before those of all, as Hadoop has it."""
    if not hasattr(spark, "_jsparkSession"):  # a Connect server keeps its own to itself
        return {}
    java = spark.sparkContext._jsc
    assert java is not None, "a session that runs has one"
    conf = java.hadoopConfiguration()
    found = {}
    for option, name in _HADOOP_NAMES.items():
        given = conf.getTrimmed(f"{_HADOOP_PREFIX}bucket.{bucket}.{name}") or conf.getTrimmed(
            _HADOOP_PREFIX + name
        )
        if given:
            found[option] = str(given)
    if found.get(_ENDPOINT) == _NO_ENDPOINT:
        del found[_ENDPOINT]
    if _ENDPOINT in found and "://" not in found[_ENDPOINT]:
        is_plain = conf.getTrimmed(f"{_HADOOP_PREFIX}connection.ssl.enabled") == "false"
        found[_ENDPOINT] = f"{'http' if is_plain else 'https'}://{found[_ENDPOINT]}"
    return found


def _own_options(spark: "SparkSession") -> dict[str, str]:
    return {
        name.removeprefix(STORAGE_PREFIX): text
        for name, text in spark.conf.getAll.items()
        if name.startswith(STORAGE_PREFIX)
    }
