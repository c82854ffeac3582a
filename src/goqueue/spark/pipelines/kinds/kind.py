"""What a kind of pipeline is, and what a run of it gets and gives back."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from goqueue.spark.pipelines.definition import AVAILABLE_NOW, PipelineDefinition
from goqueue.spark.pipelines.field_lines import FieldPath
from goqueue.spark.pipelines.problems import Problems
from goqueue.spark.pipelines.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """One run of a pipeline, as its kind and the user's function see it."""

    definition: PipelineDefinition
    # Where Spark keeps offsets and state: a path, or an address with a scheme.
    checkpoint: str
    # The pipeline's folder on this machine; what a kind keeps between runs goes here.
    state_folder: Path
    # AVAILABLE_NOW, or an interval as Spark takes it.
    trigger: str
    # Only say what would be done.
    is_dry_run: bool
    # For work that is not a streaming query: how far it is. Queries report for themselves.
    report: Callable[[Progress], None]
    # A line for the person who watches.
    say: Callable[[str], None]
    stop_requested: Callable[[], bool]
    # Sleeps so many seconds; True if a stop was asked for meanwhile.
    wait: Callable[[float], bool]

    @property
    def is_one_pass(self) -> bool:
        """Whether the run ends when everything that is there now is done."""
        return self.trigger == AVAILABLE_NOW


@dataclass(frozen=True, slots=True)
class Run:
    """What was started: streaming queries, or work that blocks until it is done."""

    queries: "list[StreamingQuery]" = field(default_factory=list)
    # Called once, in the main thread; asks `context.stop_requested` between its steps.
    work: Callable[[], None] | None = None


class Kind(ABC):
    """Base of all kinds. Methods are called in the order in which they stand here."""

    # Which of [[source]] and [sink] it takes; others are refused.
    takes_sources: ClassVar[bool] = True
    takes_sink: ClassVar[bool] = True
    needs_sink: ClassVar[bool] = True
    # Whether `--dry-run` means something.
    has_dry_run: ClassVar[bool] = False

    @abstractmethod
    def example(self, name: str) -> dict[str, str]:
        """Files of a commented example, by name; `pipeline.toml` is the definition."""

    @abstractmethod
    def check(self, definition: PipelineDefinition, problems: Problems) -> None:
        """Note what is wrong, as far as the file tells: no broker, no Spark."""

    def topics(self, definition: PipelineDefinition) -> dict[str, FieldPath]:  # noqa: ARG002
        """Topics that must be there, with the field that names them, besides those of sources."""
        return {}

    def analyse(  # noqa: B027 (most have nothing to ask Spark)
        self, spark: "SparkSession", definition: PipelineDefinition, problems: Problems
    ) -> None:
        """Note what Spark refuses, without running anything."""

    @abstractmethod
    def start(
        self, spark: "SparkSession", definition: PipelineDefinition, context: RunContext
    ) -> Run:
        """Start queries, or hand back the work to do; what is wrong is an error at once."""
