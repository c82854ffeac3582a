"""`goqueue backup`: copies of everything that a node or cluster stores, and the way back."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.broker.data import DataDirOption
from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.failures import FAILED, CommandFailed
from goqueue.cli.http_access import HttpOption
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows, size_text

if TYPE_CHECKING:
    from goqueue.backup.catalogue import Catalogue
    from goqueue.backup.manifest import Manifest
    from goqueue.backup.progress import Progress
    from goqueue.backup.rate import Rate
    from goqueue.backup.sources import Source

backup = typer.Typer(
    help="Make, check and restore backups, of running brokers too.", no_args_is_help=True
)

StoreArgument = Annotated[
    str,
    typer.Argument(
        metavar="STORE", help="A folder, or a URL of an object store such as s3://bucket/path."
    ),
]
BackupArgument = Annotated[
    str, typer.Argument(metavar="[BACKUP]", help="The id of a backup; the newest if left out.")
]
RateOption = Annotated[
    str | None,
    typer.Option(
        "--rate",
        metavar="SIZE",
        help="Bytes a second at most, such as 50MB.",
        show_default="no bound",
    ),
]
JobsOption = Annotated[
    int, typer.Option("--jobs", min=1, max=64, help="Partitions that are worked on at once.")
]
_JOBS = 4


@backup.command(
    epilog=examples(
        "goqueue backup create /mnt/backups --rate 50MB",
        "goqueue backup create s3://my-bucket/goqueue",
        "goqueue backup create /mnt/backups --data-dir data",
    )
)
def create(
    store: StoreArgument,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="The folder of a stopped broker, instead of brokers that run."),
    ] = None,
    rate: RateOption = None,
    jobs: JobsOption = _JOBS,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Copy everything as it is now. What the store has already is not stored again.

    Topics with their messages and offsets, groups, transactions, queues, delayed messages, schemas
    and settings; of a whole cluster, through any of its brokers.
    """
    from goqueue.backup.creating import create as create_backup

    bound = _rate(rate)
    with _told(store) as catalogue:
        manifest = create_backup(
            catalogue,
            _source(data_dir, bootstrap, http),
            jobs=jobs,
            rate=bound,
            progress=_progress(),
            tell=lambda text: typer.echo(text, err=True),
        )
    if output is not Output.TABLE:
        print_document(_facts(manifest), output)
        return
    typer.echo(
        f"backup {manifest.id}: {_some(len(manifest.topics), 'topic')}, "
        f"{_some(manifest.partition_count, 'partition')}, {size_text(manifest.size_bytes)} "
        f"({size_text(manifest.new_bytes)} new) in {manifest.seconds:.1f} s"
    )


@backup.command("list", epilog=examples("goqueue backup list /mnt/backups -o json"))
def list_backups(store: StoreArgument, output: OutputOption = Output.TABLE) -> None:
    """The backups of a store, oldest first. Ends with status 1 if one of them cannot be read."""
    rows: list[dict[str, object]] = []
    problems: list[str] = []
    with _told(store) as catalogue:
        from goqueue.backup.errors import BackupDamaged

        for each in catalogue.ids():
            try:
                rows.append(_facts(catalogue.find(each)))
            except BackupDamaged as error:
                problems.append(error.message)
    if output is not Output.TABLE:
        print_document(rows, output)
    elif rows:
        _print_backups(rows, output)
    elif not problems:
        typer.echo(f"no backup in {store}", err=True)
    for problem in problems:
        typer.echo(f"goqueue: {problem}", err=True)
    if problems:
        raise typer.Exit(FAILED)


def _print_backups(rows: list[dict[str, object]], output: Output) -> None:
    from goqueue.cli.moments import format_moment

    columns = {
        "id": "Backup",
        "taken": "Taken",
        "cluster": "Cluster",
        "topics": "Topics",
        "partitions": "Partitions",
        "size": "Size",
        "new": "New",
    }
    for row in rows:
        row["taken"] = format_moment(int(str(row["takenAt"])))
        row["cluster"] = row["clusterId"]
        row["size"] = size_text(int(str(row["bytes"])))
        row["new"] = size_text(int(str(row["newBytes"])))
    print_rows(rows, output, columns=columns)


@backup.command(epilog=examples("goqueue backup verify /mnt/backups"))
def verify(
    store: StoreArgument,
    wanted: BackupArgument = "latest",
    rate: RateOption = None,
    jobs: JobsOption = _JOBS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read every object, batch and offset of a backup. Ends with status 1 if anything is wrong."""
    from goqueue.backup.verifying import verify as verify_backup

    bound = _rate(rate)
    with _told(store) as catalogue:
        manifest = catalogue.find(wanted)
        found = verify_backup(catalogue, manifest, jobs=jobs, rate=bound, progress=_progress())
    rows = [{"place": each.place, "problem": each.problem} for each in found.problems]
    if output is not Output.TABLE:
        counts = {"batches": found.batches, "records": found.records, "bytes": found.bytes}
        print_document({"id": manifest.id, **counts, "problems": rows}, output)
    elif rows:
        print_rows(rows, output, columns={"place": "Partition", "problem": "Problem"})
        typer.echo(
            f"backup {manifest.id} cannot be restored as a whole; make a new one: objects that are "
            "damaged or missing are stored again if the broker still has what was in them",
            err=True,
        )
    else:
        typer.echo(
            f"backup {manifest.id} is whole: {_some(found.batches, 'batch', 'batches')} with "
            f"{_some(found.records, 'record')}, "
            f"{size_text(found.bytes)}"
        )
    if rows:
        raise typer.Exit(FAILED)


@backup.command(
    epilog=examples(
        "goqueue backup restore /mnt/backups --data-dir data",
        "goqueue backup restore s3://my-bucket/goqueue 20260131T120000Z-0123abcd --data-dir data",
    )
)
def restore(
    store: StoreArgument,
    wanted: BackupArgument = "latest",
    data_dir: DataDirOption = Path("data"),
    node_id: Annotated[int, typer.Option(min=0, help="The number of the broker.")] = 0,
    rate: RateOption = None,
    jobs: JobsOption = _JOBS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make the data directory of a broker of a backup, in an empty folder.

    If it is cut short, run it again: the folder is begun anew, and no broker starts on half of it.
    """
    from goqueue.backup.restoring import restore as restore_backup
    from goqueue.model.names import NodeId

    bound = _rate(rate)
    with _told(store) as catalogue:
        manifest = catalogue.find(wanted)
        restore_backup(
            catalogue,
            manifest,
            data_dir,
            node_id=NodeId(node_id),
            jobs=jobs,
            rate=bound,
            progress=_progress(),
        )
    if output is not Output.TABLE:
        print_document({**_facts(manifest), "dataDir": str(data_dir)}, output)
        return
    number = f" --node-id {node_id}" if node_id else ""
    typer.echo(
        f"{data_dir} is as backup {manifest.id}: {_some(len(manifest.topics), 'topic')}, "
        f"{size_text(manifest.size_bytes)}.\n"
        f"Start it with: goqueue serve --data-dir {data_dir}{number}"
    )
    if manifest.is_cluster:
        typer.echo(
            "Or make it the first broker of a new cluster with: goqueue cluster adopt --data-dir "
            f"{data_dir} --node-id {node_id} --cluster etcd://…"
        )


@backup.command(epilog=examples("goqueue backup prune /mnt/backups --keep 7 --since '30d ago'"))
def prune(
    store: StoreArgument,
    keep: Annotated[int, typer.Option(min=1, help="The newest that stay.", show_default=False)],
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Those that were taken since stay as well, such as '30d ago'."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove old backups, and what no other backup needs of them.

    Safe beside a backup that is being made: what nobody needs is left to the next prune then.
    """
    from goqueue.backup.removing import plan_prune, remove

    with _told(store) as catalogue:
        chosen = plan_prune(catalogue, keep=keep, since_ms=_moment_ms(since))
        if chosen.removed:
            confirm(
                f"Remove {_some(len(chosen.removed), 'backup')}, keep {len(chosen.kept)}?", yes=yes
            )
        done = remove(catalogue, chosen)
    if output is not Output.TABLE:
        facts = {"removed": chosen.removed, "kept": chosen.kept, "objects": done.objects}
        print_document({**facts, "bytes": done.bytes, "beside": done.beside}, output)
        return
    typer.echo(
        f"{_some(len(chosen.removed), 'backup')} removed, {len(chosen.kept)} kept; "
        f"{size_text(done.bytes)} in {_some(done.objects, 'object')} freed"
    )
    if done.beside:
        typer.echo(
            f"backup {done.beside[0]} is being made: what nobody needs is left to the next prune",
            err=True,
        )


# --- inside -------------------------------------------------------------------------------


@contextmanager
def _told(address: str) -> "Iterator[Catalogue]":
    """Errors of disks and object stores as one line that says what to look at."""
    from goqueue.backup.catalogue import Catalogue
    from goqueue.backup.stores import open_store

    try:
        yield Catalogue(open_store(address))
    except OSError as error:
        raise CommandFailed(
            f"{error}; check that {address} can be reached and written to, and that no disk is full"
        ) from error


def _source(data_dir: Path | None, bootstrap: str, http: str | None) -> "Source":
    if data_dir is not None:
        from goqueue.backup.stopped_source import StoppedSource

        return StoppedSource(data_dir)
    from goqueue.backup.running_source import RunningSource
    from goqueue.cli.http_access import http_urls
    from goqueue.cli.security.connecting import http_security, kafka_security

    return RunningSource(
        bootstrap, http_urls(bootstrap, http), http_security(), kafka_security=kafka_security()
    )


def _rate(text: str | None) -> "Rate":
    from goqueue.backup.rate import Rate
    from goqueue.model.units import size_bytes

    if text is None:
        return Rate(None)
    found = int(text) if text.isdecimal() else size_bytes(text)
    if not found:
        raise typer.BadParameter(f"{text!r} is not a size; write 50MB or 1GiB", param_hint="--rate")
    return Rate(found)


def _progress() -> "Progress":
    from goqueue.backup.progress import Progress

    return Progress(sys.stderr if sys.stderr.isatty() else None)


def _moment_ms(text: str | None) -> int | None:
    if text is None:
        return None
    import time

    from goqueue.cli.moments import parse_moment_ms

    try:
        return parse_moment_ms(text, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from None


def _some(count: int, one: str, many: str = "") -> str:
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"


def _facts(manifest: "Manifest") -> dict[str, object]:
    return {
        "id": manifest.id,
        "takenAt": manifest.taken_at_ms,
        "clusterId": manifest.cluster_id,
        "isCluster": manifest.is_cluster,
        "topics": len(manifest.topics),
        "partitions": manifest.partition_count,
        "bytes": manifest.size_bytes,
        "newBytes": manifest.new_bytes,
        "seconds": manifest.seconds,
    }
