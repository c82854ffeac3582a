"""`goqueue data`: look into the folder of a stopped broker, and mend what is damaged there."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.failures import FAILED, CommandFailed
from goqueue.cli.options import Output, OutputOption
from goqueue.cli.output import print_rows

if TYPE_CHECKING:
    from goqueue.storage.disk import Disk
    from goqueue.storage.mending.checking import DamagedLog, DamagedSmallFile
    from goqueue.storage.mending.stopped_folder import StoppedFolder

data = typer.Typer(help="Check and repair the folder of a stopped broker.", no_args_is_help=True)

DataDirOption = Annotated[
    Path, typer.Option(help="Folder of everything that is stored.", envvar="GOQUEUE_DATA_DIR")
]
PartitionsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC-PARTITION]...", help="Only these; all if none is given."),
]
_COLUMNS = {"file": "File", "offsets": "Offsets", "problem": "Problem", "repair": "Repair"}


@data.command(epilog=examples("goqueue data check --data-dir data"))
def check(
    partitions: PartitionsArgument = None,
    data_dir: DataDirOption = Path("data"),
    output: OutputOption = Output.TABLE,
) -> None:
    """Verify every batch of every log, and the metadata. Changes nothing.

    The broker must be stopped. Ends with status 1 if anything is damaged.
    """
    from goqueue.storage.disk import Disk
    from goqueue.storage.mending.checking import check_strays, check_top_files
    from goqueue.storage.mending.stopped_folder import stopped_folder

    disk = Disk()
    with stopped_folder(disk, data_dir) as folder:
        rows: list[dict[str, object]] = []
        if not partitions:
            rows += [_row(found, data_dir) for found in check_top_files(disk, data_dir)]
            rows += _metadata_rows(folder)
            rows += [_row(found, data_dir) for found in check_strays(disk, folder.strays)]
        rows += [_row(found, data_dir) for found in _findings(disk, folder, partitions)]
    _show(rows, output)
    if rows:
        raise typer.Exit(FAILED)


@data.command(epilog=examples("goqueue data repair", "goqueue data repair orders-0 --write"))
def repair(
    partitions: PartitionsArgument = None,
    data_dir: DataDirOption = Path("data"),
    write: Annotated[
        bool, typer.Option("--write", help="Do it. Without this, only say what would be done.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make damaged logs readable: what is lost in them is left out, all else stays at its offset.

    The broker must be stopped. The damaged files are kept beside the new ones, ending in .damaged;
    those of further repairs in .damaged.2 and so on.
    """
    from goqueue.storage.disk import Disk
    from goqueue.storage.mending.checking import DamagedLog
    from goqueue.storage.mending.mending import mend
    from goqueue.storage.mending.stopped_folder import stopped_folder

    disk = Disk()
    rows: list[dict[str, object]] = []
    failures = 0
    with stopped_folder(disk, data_dir) as folder:
        if not partitions:
            rows += _metadata_rows(folder)
        for found in _findings(disk, folder, partitions):
            row = _row(found, data_dir)
            if write and isinstance(found, DamagedLog):
                try:
                    row["repair"] = f"done; the damaged file is {mend(disk, found).name}"
                except OSError as error:
                    # The others are repaired.
                    row["repair"] = f"not done: {error}"
                    failures += 1
            rows.append(row)
    _show(rows, output)
    if failures:
        raise CommandFailed(f"{failures} of the damaged files could not be repaired")
    if rows and not write:
        typer.echo("Nothing was changed; --write does it.", err=True)


@data.command("remove-strays", epilog=examples("goqueue data remove-strays --data-dir data"))
def remove_strays(
    data_dir: DataDirOption = Path("data"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete the folders of partitions that the metadata did not know at the last start."""
    from goqueue.storage.disk import Disk
    from goqueue.storage.mending.checking import stray_folders
    from goqueue.storage.mending.stopped_folder import stopped_folder
    from goqueue.storage.partition_files import remove_folder

    disk = Disk()
    left: list[str] = []
    with stopped_folder(disk, data_dir) as folder:
        strays = stray_folders(disk, folder.strays)
        if strays:
            confirm(f"Delete {len(strays)} folders in {folder.strays} with all messages?", yes=yes)
        for stray in strays:
            try:
                remove_folder(disk, stray)
            except OSError as error:
                # The others go.
                left.append(f"{stray} cannot be deleted: {error}")
    typer.echo(f"{len(strays) - len(left)} folders deleted.")
    if left:
        raise CommandFailed("; ".join(left))


def _findings(
    disk: "Disk", folder: "StoppedFolder", partitions: list[str] | None
) -> "Iterator[DamagedLog | DamagedSmallFile]":
    from goqueue.storage.mending.checking import check_folder, stored_folders

    stored = stored_folders(disk, folder.logs)
    for name in partitions or ():
        if name not in {path.name for path in stored}:
            raise CommandFailed(f"{folder.logs} has no partition {name!r}")
    for path in stored:
        if not partitions or path.name in partitions:
            yield from check_folder(disk, path, folder.last_stop)


def _metadata_rows(folder: "StoppedFolder") -> Iterator[dict[str, object]]:
    from goqueue.metadata.local import stored_revision
    from goqueue.model.errors import MetadataCorrupt
    from goqueue.storage.mending.checking import MAY_READ

    problem = None
    repair = "restore the folder from a backup"
    try:
        # Not made if it is not there.
        next(folder.metadata.iterdir(), None)
        revision = stored_revision(folder.metadata)
    except MetadataCorrupt as error:
        problem = str(error)
    except PermissionError as error:
        problem, repair = str(error), MAY_READ
    except OSError as error:
        problem = str(error)
    else:
        noted = None if folder.last_stop is None else folder.last_stop.metadata_revision
        if noted is not None and revision < noted:
            problem = f"ends at revision {revision}; it was at {noted} when the broker stopped"
    if problem is not None:
        yield {
            "file": folder.metadata.name,
            "offsets": None,
            "problem": problem,
            "repair": repair,
        }


def _row(found: "DamagedLog | DamagedSmallFile", data_dir: Path) -> dict[str, object]:
    from goqueue.storage.mending.checking import DamagedLog

    row: dict[str, object] = {"file": str(found.path.relative_to(data_dir))}
    if isinstance(found, DamagedLog):
        lost = [gap for gap in found.gaps if gap.first_offset < gap.next_offset]
        row["offsets"] = [f"{gap.first_offset}-{gap.next_offset - 1}" for gap in lost]
        row["problem"] = found.gaps[0].reason
        row["repair"] = "leave these offsets out" if lost else "cut off what is no batch"
    else:
        row |= {"offsets": None, "problem": found.reason, "repair": found.repair}
    return row


def _show(rows: list[dict[str, object]], output: Output) -> None:
    if rows or output is not Output.TABLE:
        print_rows(rows, output, columns=_COLUMNS)
    else:
        typer.echo("No damage was found.")
