"""`goqueue pipeline`: jobs on Spark that read topics and write topics and tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandFailed
from goqueue.cli.options import Output, OutputOption, seconds_option_ms
from goqueue.cli.output import print_document, print_rows

if TYPE_CHECKING:
    from goqueue.spark.pipelines.run_status import RunStatus
    from goqueue.spark.pipelines.state_folder import StateFolder

pipeline = typer.Typer(help="Run data pipelines on Spark.", no_args_is_help=True)

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A definition (.toml, .yaml), or its folder.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name.")]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="A Spark cluster, such as spark://host:7077; else the definition's, else local[*].",
        show_default=False,
    ),
]
# The names of `goqueue.spark.pipelines.kinds`, which this module does not import to stay quick.
_KINDS: Final = "sql, python, replay, archive or dead-letters"
# A run that was asked to stop finishes its batch; then it is told more firmly.
_STOP_AFTER: Final = "60s"


@pipeline.command(
    "init",
    epilog=examples("goqueue pipeline init revenue", "goqueue pipeline init keep --kind archive"),
)
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of a to z, 0 to 9 and '-'.")],
    kind: Annotated[str, typer.Option("--kind", "-k", help=f"What it does: {_KINDS}.")] = "sql",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            help="Where to write it.",
            show_default="a folder with the pipeline's name",
        ),
    ] = None,
) -> None:
    """Write an example to begin with: a definition with comments, and what goes with it."""
    from goqueue.spark.pipelines.definition import is_pipeline_name
    from goqueue.spark.pipelines.kinds import NAMES, find_kind

    if not is_pipeline_name(name):
        raise typer.BadParameter(
            f"{name!r}: use up to 63 of a to z, 0 to 9 and '-'", param_hint="NAME"
        )
    if kind not in NAMES:
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(NAMES)}", param_hint="--kind")
    target = folder or Path(name)
    files = {target / file: text for file, text in find_kind(kind).example(name).items()}
    there = [str(path) for path in files if path.exists()]
    if there:
        raise CommandFailed(f"{there[0]} is there already; choose another name or --folder")
    target.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        typer.echo(f"wrote {path}")
    what = "it" if len(files) == 1 else "them"
    typer.echo(f"next: edit {what}, then `goqueue pipeline check {target}`")


@pipeline.command("check", epilog=examples("goqueue pipeline check revenue"))
def check(
    file: FileArgument,
    offline: Annotated[
        bool, typer.Option("--offline", help="The file only: no broker, no Spark.")
    ] = False,
    master: MasterOption = None,
) -> None:
    """Say what is wrong with a pipeline, with the lines; exits with 1 if anything is."""
    from goqueue.spark.pipelines.checks import check_broker, check_installed, load_pipeline

    with _problems_listed():
        found = load_pipeline(file)
        if not offline:
            check_installed()
            check_broker(found)
            from goqueue.cli.pipelines_run import check_with_spark

            check_with_spark(found, master)
    typer.echo(f"{found.definition.file.path}: pipeline {found.definition.name!r} is sound")


@pipeline.command(
    "run",
    epilog=examples(
        "goqueue pipeline run revenue --once",
        "goqueue pipeline run revenue --detach --master spark://host:7077",
    ),
)
def run(
    file: FileArgument,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="In the background; survives this terminal.")
    ] = False,
    master: MasterOption = None,
    once: Annotated[bool, typer.Option("--once", help="Only what is there now, then end.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done (replay, dead-letters).")
    ] = False,
) -> None:
    """Check a pipeline and run it, until it is done or stopped."""
    from goqueue.cli.pipelines_run import run_detached, run_here
    from goqueue.spark.pipelines.checks import check_broker, check_installed, load_pipeline

    with _problems_listed():
        found = load_pipeline(file)
    if dry_run and not found.kind.has_dry_run:
        raise typer.BadParameter(
            f"kind {found.definition.kind} has none; use `goqueue pipeline check`",
            param_hint="--dry-run",
        )
    if dry_run and detach:
        raise typer.BadParameter("a dry run is for looking at", param_hint="--detach")
    check_installed()
    with _problems_listed():
        if not detach:
            run_here(found, master=master, once=once, dry_run=dry_run)
            return
        # What is wrong with broker or topics is said here, not in a log.
        check_broker(found)
        run_detached(found, master=master, once=once)


@pipeline.command("list", epilog=examples("goqueue pipeline list"))
def list_pipelines(output: OutputOption = Output.TABLE) -> None:
    """The pipelines that have run from this folder, or from $GOQUEUE_PIPELINES."""
    from goqueue.spark.pipelines.state_folder import known_pipelines

    rows = [_row(folder.status()) for folder in known_pipelines()]
    columns = {
        "name": "Name",
        "kind": "Kind",
        "state": "State",
        "pid": "Process",
        "batchId": "Batch",
        "rowsPerSecond": "Rows/s",
        "lag": "Lag",
        "watermark": "Watermark",
    }
    print_rows(rows, output, columns=columns)


@pipeline.command("status", epilog=examples("goqueue pipeline status revenue --log"))
def status(
    name: NameArgument,
    log: Annotated[bool, typer.Option("--log", help="Also the end of its log.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """How a pipeline stands; exits with 1 if it has failed."""
    from goqueue.spark.pipelines.run_status import RunState

    folder = _folder(name)
    found = folder.status()
    if output is Output.TABLE:
        _print_status(found)
    else:
        print_document(found.to_json(), output)
    if log:
        typer.echo(folder.log_tail().rstrip("\n"))
    if found.state is RunState.FAILED:
        raise typer.Exit(1)


@pipeline.command("stop", epilog=examples("goqueue pipeline stop revenue --timeout 2m"))
def stop(
    name: NameArgument,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="How long its batch may take, such as 2m; then the process is ended.",
        ),
    ] = _STOP_AFTER,
) -> None:
    """End a pipeline after its current batch; it goes on from there when it is run again."""
    from goqueue.cli.pipelines_run import end_run

    timeout_ms = seconds_option_ms(timeout, "--timeout")
    folder = _folder(name)
    found = folder.status()
    if found.state.is_over:
        typer.echo(f"{name} is not running ({found.state})")
        return
    end_run(folder, timeout_seconds=timeout_ms / 1_000)
    typer.echo(f"{name}: {folder.status().state}")


@contextmanager
def _problems_listed() -> Iterator[None]:
    """Each problem on a line of its own, as editors and compilers have it."""
    from goqueue.spark.pipelines.problems import InvalidPipeline

    try:
        yield
    except InvalidPipeline as error:
        typer.echo(error.message, err=True)
        count = len(error.problems)
        what = "1 problem" if count == 1 else f"{count} problems"
        raise CommandFailed(f"{what}; nothing was started") from error


def _folder(name: str) -> "StateFolder":
    from goqueue.spark.pipelines.definition import is_pipeline_name
    from goqueue.spark.pipelines.state_folder import StateFolder

    if not is_pipeline_name(name):
        raise typer.BadParameter(
            f"{name!r} is no pipeline's name; see `goqueue pipeline list`", param_hint="NAME"
        )
    return StateFolder(name)


def _row(found: "RunStatus") -> dict[str, Any]:
    """One line of a pipeline: of several queries, the one that reported last."""
    latest = max(found.progress.values(), key=lambda each: each["atMs"], default={})
    speed = latest.get("rowsPerSecond")
    return {
        "name": found.name,
        "kind": found.kind,
        "state": str(found.state),
        "pid": None if found.state.is_over else found.pid,
        "batchId": latest.get("batchId"),
        "rowsPerSecond": None if speed is None else round(speed),
        "lag": latest.get("lag"),
        "watermark": latest.get("watermark"),
        "error": found.error,
    }


def _print_status(found: "RunStatus") -> None:
    from goqueue.spark.pipelines.progress import Progress

    typer.echo(f"{found.name} ({found.kind}): {found.state}")
    typer.echo(f"  definition  {found.definition}")
    typer.echo(f"  master      {found.master}")
    ended = f", ended {found.ended_at}" if found.ended_at else f", updated {found.updated_at}"
    typer.echo(f"  started     {found.started_at}{ended}, process {found.pid}")
    for progress in found.progress.values():
        typer.echo(f"  {Progress.from_json(progress)}")
    if found.error:
        typer.echo(f"  error       {found.error}")
