"""Runs pipelines in the shared session, as the command does in a process of its own."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.spark.pipelines.checks import load_pipeline
from goqueue.spark.pipelines.definition import AVAILABLE_NOW
from goqueue.spark.pipelines.progress import Progress
from goqueue.spark.pipelines.run_status import RunState, RunStatus
from goqueue.spark.pipelines.runner import PipelineRunner, RunOptions, StopRequest, Watcher
from goqueue.spark.pipelines.state_folder import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class PipelineRun:
    state: RunState | None
    status: RunStatus | None
    said: list[str] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(each.batch_rows for each in self.progress)


def run_file(
    spark: "SparkSession",
    path: Path,
    *,
    trigger: str = AVAILABLE_NOW,
    dry_run: bool = False,
    on_progress: Callable[[Progress, StopRequest], None] = lambda progress, stop: None,
) -> PipelineRun:
    """Until it is over; `on_progress` may ask it to stop."""
    pipeline = load_pipeline(path)
    folder = StateFolder(pipeline.definition.name)
    stop = StopRequest(folder)
    run = PipelineRun(None, None)

    def show(progress: Progress) -> None:
        run.progress.append(progress)
        on_progress(progress, stop)

    runner = PipelineRunner(
        pipeline,
        folder,
        RunOptions(master="shared", trigger=trigger),
        open_session=lambda: nullcontext(spark),
        stop=stop,
        watcher=Watcher(say=run.said.append, show=show),
    )
    if dry_run:
        runner.dry_run()
    else:
        run.state = runner.run()
        run.status = folder.status()
    return run


def write_pipeline(folder: Path, definition: str, **files: str) -> Path:
    """`files` are by name with an underscore for the dot: `query_sql="SELECT …"`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pipeline.toml"
    path.write_text(definition)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return path
