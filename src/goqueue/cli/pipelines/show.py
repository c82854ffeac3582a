"""How pipelines stand: lists, logs, and metrics for Prometheus."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.failures import CommandFailed
from goqueue.cli.options import Output, OutputOption
from goqueue.cli.output import print_document, print_rows

if TYPE_CHECKING:
    from goqueue.spark.pipelines.run_status import RunStatus
    from goqueue.spark.pipelines.state_folder import StateFolder

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name.")]
_LOG_LINES: Final = 50


def list_pipelines(output: OutputOption = Output.TABLE) -> None:
    """The pipelines that have run from this folder, or from $GOQUEUE_PIPELINES."""
    from goqueue.spark.pipelines.state_folder import known_pipelines

    rows = [_row(folder.status()) for folder in known_pipelines()]
    columns = {
        "name": "Name",
        "kind": "Kind",
        "state": "State",
        "pid": "Process",
        "restarts": "Restarts",
        "batchId": "Batch",
        "rowsPerSecond": "Rows/s",
        "lag": "Lag",
        "watermark": "Watermark",
    }
    print_rows(rows, output, columns=columns)


def status(
    name: NameArgument,
    output: OutputOption = Output.TABLE,
) -> None:
    """How a pipeline stands; exits with 1 if it has failed."""
    from goqueue.spark.pipelines.run_status import RunState

    found = state_folder(name).status()
    if output is Output.TABLE:
        _print_status(found)
    else:
        print_document(found.to_json(), output)
    if found.state is RunState.FAILED:
        raise typer.Exit(1)


def logs(
    name: NameArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is written, until it ends.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="From the end of the log.")
    ] = _LOG_LINES,
) -> None:
    """The log of a pipeline's latest run."""
    folder = state_folder(name)
    folder.status()  # an unknown name is an error
    last, place = folder.last_lines(lines)
    for line in last:
        typer.echo(line)
    if follow:
        for text in folder.follow_log(place):
            sys.stdout.write(text)
            sys.stdout.flush()


def metrics(
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Serve them at /metrics until this is ended.",
            show_default=False,
        ),
    ] = None,
    textfile: Annotated[
        Path | None,
        typer.Option(
            "--textfile",
            metavar="FILE",
            help="Write them there as a whole, for node_exporter.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """State, lag and throughput of the pipelines that have run here, for Prometheus."""
    from goqueue.spark.pipelines.run_metrics import metrics_text, serve_metrics, write_textfile

    if textfile is not None:
        write_textfile(textfile)
    if listen is None:
        if textfile is None:
            typer.echo(metrics_text(), nl=False)
        return
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(
            f"{listen!r}: write host:port, such as 127.0.0.1:9464", param_hint="--listen"
        )
    try:
        bound, serving = serve_metrics(host, int(port))
    except OSError as error:
        raise CommandFailed(f"cannot listen at {listen}: {error.strerror}") from error
    typer.echo(f"metrics at http://{host}:{bound}/metrics")
    serving.join()


def state_folder(name: str) -> "StateFolder":
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
        "host": found.host,
        "restarts": found.restarts,
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
    typer.echo(f"  started     {found.started_at}{ended}, process {found.pid} on {found.host}")
    if found.restarts:
        again = f", begins again at {found.next_start_at}" if found.next_start_at else ""
        typer.echo(f"  restarts    {found.restarts}{again}")
    for progress in found.progress.values():
        typer.echo(f"  {Progress.from_json(progress)}")
    if found.error:
        typer.echo(f"  error       {found.error}")
