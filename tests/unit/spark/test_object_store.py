"""One set of settings for the three clients of an object store."""

import os
from pathlib import Path

import pytest
from pyarrow import fs

from goqueue.spark.archive import object_store
from goqueue.spark.archive.object_store import (
    file_system,
    spark_settings,
    spark_uri,
    storage_options,
    table_uri,
)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    # A test of another file may have left a session.
    monkeypatch.setattr(object_store, "_session", lambda: None)


def test_each_client_gets_its_scheme() -> None:
    assert spark_uri("s3://b/t") == spark_uri("s3a://b/t") == "s3a://b/t"
    assert table_uri("s3a://b/t") == table_uri("s3://b/t") == "s3://b/t"
    for other in ("/srv/s3/t", "hdfs:///t", "file:/t", "gs://b/t"):
        assert spark_uri(other) == table_uri(other) == other
        assert storage_options(other) == {}


def test_variables_reach_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert storage_options("s3://b/t") == {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_CONDITIONAL_PUT": "etag",
    }
    assert spark_settings({}) == {
        "spark.hadoop.fs.s3a.access.key": "me",
        "spark.hadoop.fs.s3a.secret.key": "hush",
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


def test_settings_of_the_session_come_before_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert spark_settings({"spark.goqueue.storage.AWS_REGION": "eu-north-1"}) == {
        "spark.hadoop.fs.s3a.endpoint.region": "eu-north-1"
    }
    assert spark_settings({}) == {"spark.hadoop.fs.s3a.endpoint.region": "eu-west-1"}


def test_a_locking_provider_takes_the_place_of_conditional_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    assert storage_options("s3://b/t") == {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}


def test_arrow_gets_keys_and_address() -> None:
    options = {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_REGION": "us-east-1",
    }
    files, root = file_system("s3a://b/folder/t/", options)
    assert isinstance(files, fs.S3FileSystem)
    assert (files.region, root) == ("us-east-1", "b/folder/t")
    local, root = file_system("relative", {})
    assert isinstance(local, fs.LocalFileSystem)
    assert root == str(Path("relative").absolute())
