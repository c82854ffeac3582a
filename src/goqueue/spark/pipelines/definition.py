"""What a pipeline is to do, as its file says it, checked as far as the file alone shows it."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from goqueue.client.addresses import parse_addresses
from goqueue.client.errors import BrokerUnreachable
from goqueue.model.units import duration_ms
from goqueue.spark.pipelines.definition_file import DefinitionFile
from goqueue.spark.pipelines.fields import Fields, spark_duration
from goqueue.spark.pipelines.problems import Problems
from goqueue.spark.pipelines.sink_definition import SinkDefinition, read_sink
from goqueue.spark.pipelines.source_definition import SourceDefinition, read_sources

AVAILABLE_NOW: Final = "available-now"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
# Often enough to see what happens, seldom enough that batches are worth their start.
_DEFAULT_TRIGGER: Final = "5s"

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    # AVAILABLE_NOW, or an interval as Spark takes it.
    trigger: str
    # None: below the state folder.
    checkpoint: str | None
    master: str | None
    # An archive by `goqueue pipeline package`, for workers whose Python has no GoQueue.
    package: str | None
    conf: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDefinition:
    file: DefinitionFile
    name: str
    kind: str
    bootstrap_servers: str
    sources: tuple[SourceDefinition, ...]
    sink: SinkDefinition | None
    run: RunSettings

    @property
    def folder(self) -> Path:
        """What relative paths in the definition are relative to."""
        return self.file.path.resolve().parent

    def section(self, name: str, problems: Problems) -> Fields:
        """A table of the pipeline's kind, empty if it is not there."""
        found = Fields(self.file, problems).table(name)
        return found or Fields(self.file, problems, (name,), {})

    def path_text(self, text: str) -> str:
        """A path, or an address with a scheme, which stays as it is."""
        return text if "://" in text else str(self.folder / Path(text).expanduser())


def is_pipeline_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def read_definition(
    file: DefinitionFile, problems: Problems, sections: dict[str, tuple[str, ...]]
) -> PipelineDefinition:
    """`sections` has the tables that each kind knows besides those of all."""
    fields = Fields(file, problems)
    name = fields.text("name", required='give the pipeline a name, such as name = "revenue"')
    if name and not is_pipeline_name(name):
        fields.problem("name", f"{name!r}: use up to 63 of a to z, 0 to 9 and '-'")
    fields.text("description")
    known = ", ".join(sections)
    kind = fields.choice("kind", tuple(sections), "")
    if "kind" not in fields:
        fields.problem("kind", f"missing; write one of {known}")
    servers = fields.text(
        "bootstrap.servers", os.environ.get("GOQUEUE_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    )
    try:
        parse_addresses(servers)
    except BrokerUnreachable as error:
        fields.problem("bootstrap.servers", error.message)
        servers = DEFAULT_BOOTSTRAP
    definition = PipelineDefinition(
        file=file,
        name=name,
        kind=kind,
        bootstrap_servers=servers,
        sources=read_sources(fields, servers),
        sink=read_sink(fields, servers),
        run=_read_run(fields),
    )
    for section in sections.get(kind, sum(sections.values(), ())):
        fields.table(section)
    fields.finish()
    return definition


def _read_run(fields: Fields) -> RunSettings:
    table = fields.table("run")
    if table is None:
        table = Fields(fields.file, Problems(), ("run",), {})
    settings = RunSettings(
        trigger=_read_trigger(table),
        checkpoint=table.text("checkpoint") or None,
        master=table.text("master") or None,
        package=table.text("package") or None,
        conf=table.settings("conf"),
    )
    for name in settings.conf:
        if not name.startswith("spark."):
            table.problem(f"conf.{name}", f"Spark's settings begin with spark.: spark.{name}?")
    table.finish()
    return settings


def _read_trigger(table: Fields) -> str:
    text = table.text("trigger", _DEFAULT_TRIGGER).strip()
    if text in (AVAILABLE_NOW, "once"):
        return AVAILABLE_NOW
    interval_ms = duration_ms(text)
    if interval_ms is None:
        table.problem(
            "trigger",
            f"{text!r}: write {AVAILABLE_NOW} (all there is now, then end), or how often to look, "
            'such as "5s" or "1m"',
        )
        return text
    return spark_duration(interval_ms)
