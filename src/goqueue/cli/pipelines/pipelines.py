"""`goqueue pipeline`: jobs on Spark that read topics and write topics and tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandFailed
from goqueue.cli.options import seconds_option_ms
from goqueue.cli.pipelines.exit_codes import ExitCode
from goqueue.cli.pipelines.show import (
    NameArgument,
    list_pipelines,
    logs,
    metrics,
    state_folder,
    status,
)

pipeline = typer.Typer(help="Run data pipelines on Spark.", no_args_is_help=True)
pipeline.command("list", epilog=examples("goqueue pipeline list"))(list_pipelines)
pipeline.command("status", epilog=examples("goqueue pipeline status revenue"))(status)
pipeline.command("logs", epilog=examples("goqueue pipeline logs revenue --follow"))(logs)
pipeline.command(
    "metrics",
    epilog=examples("goqueue pipeline metrics", "goqueue pipeline metrics --listen 127.0.0.1:9464"),
)(metrics)

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A definition (.toml, .yaml), or its folder.")
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="A Spark cluster, such as spark://host:7077; else the definition's, else local[*].",
        show_default=False,
    ),
]
PackageOption = Annotated[
    str | None,
    typer.Option(
        "--package",
        metavar="FILE",
        help="For workers without GoQueue: an archive by `goqueue pipeline package`.",
        show_default=False,
    ),
]
# The names of `goqueue.spark.pipelines.kinds`, which this module does not import to stay quick.
_KINDS: Final = "sql, python, replay, archive or dead-letters"
# With the waits between them about an hour and a quarter; then somebody has to look.
_MAX_FAILURES: Final = 20
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
    package: PackageOption = None,
) -> None:
    """Say what is wrong with a pipeline, with the lines; exits with 2 if anything is."""
    from goqueue.spark.pipelines.checks import check_broker, check_installed, load_pipeline

    with _problems_listed():
        found = load_pipeline(file)
        if not offline:
            check_installed()
            check_broker(found)
            from goqueue.cli.pipelines.run import SparkTarget, check_with_spark

            check_with_spark(found, SparkTarget(found.definition, master, package))
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
    package: PackageOption = None,
    once: Annotated[bool, typer.Option("--once", help="Only what is there now, then end.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin again after failures, later and later.")
    ] = False,
    max_failures: Annotated[
        int,
        typer.Option("--max-failures", min=1, help="In a row, until --restart gives up."),
    ] = _MAX_FAILURES,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done (replay, dead-letters).")
    ] = False,
) -> None:
    """Check a pipeline and run it, until it is done or stopped.

    Exits with 0 if it is done or was stopped, 1 if it failed, 2 if the definition or the command is
    wrong, 3 if it is running already, 4 if broker or cluster do not answer.
    """
    from goqueue.cli.pipelines.run import SparkTarget, run_and_restart, run_detached, run_here
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
    if dry_run and restart:
        raise typer.BadParameter("a dry run is for looking at", param_hint="--restart")
    check_installed()
    spark_target = SparkTarget(found.definition, master, package)
    with _problems_listed():
        if detach:
            # What is wrong with broker or topics is said here, not in a log.
            check_broker(found)
            run_detached(
                found, spark_target, once=once, max_failures=max_failures if restart else None
            )
        elif restart:
            run_and_restart(found, spark_target, once=once, max_failures=max_failures)
        else:
            run_here(found, spark_target, once=once, dry_run=dry_run)


@pipeline.command("package", epilog=examples("goqueue pipeline package --with pandas"))
def package(
    target: Annotated[
        Path | None,
        typer.Option(
            "--target", "-t", metavar="FILE", help="Else a name that says what is in it, here."
        ),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME",
            help="A package installed here that your functions import; may be repeated.",
        ),
    ] = None,
) -> None:
    """Make an archive of this Python with GoQueue, for clusters whose workers do not have it."""
    from goqueue.spark.pipelines.checks import check_installed
    from goqueue.spark.shipping.worker_package import default_name, write_package

    check_installed()
    path = target or Path(default_name())
    facts = write_package(path, also or ())
    typer.echo(f"wrote {path}, {path.stat().st_size / 1_000_000:.0f} MB")
    typer.echo(
        f"  for workers on {facts.platform} with {facts.libc} or later, with or without Python"
    )
    versions = ", ".join(f"{name} {version}" for name, version in facts.packages.items())
    typer.echo(f"  has Python {facts.python}, goqueue {facts.goqueue}, {versions}")
    typer.echo(f"next: `goqueue pipeline run --master URL --package {path} FILE`")


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
    from goqueue.cli.pipelines.run import end_run

    timeout_ms = seconds_option_ms(timeout, "--timeout")
    folder = state_folder(name)
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
    from goqueue.spark.pipelines.run_lock import AlreadyRunning

    try:
        yield
    except InvalidPipeline as error:
        typer.echo(error.message, err=True)
        count = len(error.problems)
        what = "1 problem" if count == 1 else f"{count} problems"
        code = ExitCode.NO_ANSWER if error.is_broker_away else ExitCode.WRONG
        raise CommandFailed(f"{what}; nothing was started", exit_code=code) from error
    except AlreadyRunning as error:
        raise CommandFailed(error.message, exit_code=ExitCode.RUNNING_ALREADY) from error
