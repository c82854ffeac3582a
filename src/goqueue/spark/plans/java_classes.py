"""Java sources of this folder, compiled in a session: Spark has a compiler with it."""

import zipfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tasks of such a session get the jars of that session alone, and of those not ours.
_ISOLATION: Final = "spark.sql.artifact.isolation.enabled"


class NotShipped(Exception):
    """Tasks of the session would not find the classes."""


class CompiledFile:
    def __init__(self, gateway: Any, name: str, compiler: Any) -> None:
        self._gateway = gateway
        self.name = name
        self._compiler = compiler

    def new(self, *given: object) -> Any:
        """An instance of the class that the file is named after."""
        arguments = self._gateway.new_array(self._gateway.jvm.java.lang.Object, len(given))
        for index, each in enumerate(given):
            arguments[index] = each
        made = self._compiler.getClassLoader().loadClass(f"goqueue.{self.name}")
        return made.getConstructors()[0].newInstance(arguments)

    def write_jar(self, path: Path) -> None:
        with zipfile.ZipFile(path, "w") as jar:
            for name, code in dict(self._compiler.getBytecodes()).items():
                jar.writestr(f"{name.replace('.', '/')}.class", bytes(code))


def compiled(spark: "SparkSession", name: str) -> CompiledFile:
    gateway: Any = spark.sparkContext._gateway
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(files(__package__).joinpath(f"{name}.java").read_text("utf-8"))
    return CompiledFile(gateway, name, compiler)


def ship(spark: "SparkSession", classes: CompiledFile) -> None:
    """Let tasks use the classes, wherever they run."""
    if spark.conf.get(_ISOLATION, "false") == "true":
        raise NotShipped(f"with {_ISOLATION} tasks do not get the classes they need")
    context = spark.sparkContext
    assert context._temp_dir is not None
    jar = Path(context._temp_dir) / f"goqueue-{classes.name}.jar"
    if jar.name in context._jsc.sc().listJars().mkString(" "):
        return  # by another session of this application
    classes.write_jar(jar)
    context._jsc.addJar(str(jar))
