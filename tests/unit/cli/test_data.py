"""`goqueue data check` and `repair` on folders with damage."""

import asyncio
import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from goqueue.broker.node import Node
from goqueue.broker.partitions.admission import append_now
from goqueue.cli.main import app
from goqueue.model.broker_config import broker_config
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.storage.disk import Disk
from tests.callers import ANYONE
from tests.unit.broker.test_data import batch

MESSAGES = 30


def _run(tmp_path: Path, *arguments: str) -> tuple[int, list[dict[str, object]]]:
    result = CliRunner().invoke(
        app, ["data", *arguments, "--data-dir", str(tmp_path / "data"), "-o", "json"]
    )
    return result.exit_code, json.loads(result.stdout) if result.stdout else []


async def _open(tmp_path: Path) -> Node:
    return await Node.open(broker_config({"data.dir": str(tmp_path / "data")}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition with several segments, of a broker that was stopped."""

    async def fill() -> None:
        broker = await _open(tmp_path)
        config = {"segment.bytes": "1000"}
        await BrokerService(broker).topics.create(
            ANYONE, NewTopic(name="t", partitions=1, config=config)
        )
        for number in range(MESSAGES):
            append_now(broker.partition("t", 0), batch(b"%02d" % number))
        await broker.close()

    asyncio.run(fill())
    return tmp_path / "data" / "logs" / "t-0"


def _contents(tmp_path: Path) -> dict[str, bytes]:
    files = (path for path in (tmp_path / "data").rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


def _readable(tmp_path: Path) -> tuple[list[int], int]:
    """The offsets that can be read one by one, and the log's end."""

    async def read() -> tuple[list[int], int]:
        broker = await _open(tmp_path)
        log = broker.partition("t", 0).log
        found = [header for header in log.headers_from(0) if header.record_count]
        for header in log.headers_from(0):
            log.read(header.base_offset, 1, up_to=MESSAGES, at_least_one=True, may_block=True)
        assert not log.damage
        await broker.close()
        return [header.base_offset for header in found], log.log_end_offset

    return asyncio.run(read())


def _flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_a_folder_without_damage(tmp_path: Path, folder: Path) -> None:
    before = _contents(tmp_path)
    assert _run(tmp_path, "check") == (0, [])
    assert _run(tmp_path, "repair", "--write") == (0, [])
    assert _contents(tmp_path) == before


def test_a_flipped_bit_is_found_and_left_out(tmp_path: Path, folder: Path) -> None:
    first = min(folder.glob("*.log"))
    _flip(first, 100)
    before = _contents(tmp_path)
    status, [found] = _run(tmp_path, "check")
    assert status == 1
    assert found["file"] == "logs/t-0/00000000000000000000.log"
    assert found["offsets"] == ["1-1"]
    assert _run(tmp_path, "check", "t-0") == (1, [found])
    status, [planned] = _run(tmp_path, "repair")
    assert (status, planned["repair"]) == (0, "leave these offsets out")
    assert _contents(tmp_path) == before

    status, [done] = _run(tmp_path, "repair", "--write")
    assert status == 0
    assert done["repair"] == "done; the damaged file is 00000000000000000000.log.damaged"
    assert _run(tmp_path, "check") == (0, [])
    kept = first.with_name(first.name + ".damaged")
    assert kept.read_bytes() == before[str(first)]
    offsets, end = _readable(tmp_path)
    assert offsets == [offset for offset in range(MESSAGES) if offset != 1]
    assert end == MESSAGES
    assert kept.exists()


def test_the_originals_of_all_repairs_are_kept(tmp_path: Path, folder: Path) -> None:
    first = min(folder.glob("*.log"))
    originals = []
    for position in (100, 200, 300):
        _flip(first, position)
        originals.append(first.read_bytes())
        status, [done] = _run(tmp_path, "repair", "--write")
        assert status == 0
    assert done["repair"] == "done; the damaged file is 00000000000000000000.log.damaged.3"
    kept = [first.with_name(first.name + ".damaged" + end) for end in ("", ".2", ".3")]
    assert [path.read_bytes() for path in kept] == originals
    assert _run(tmp_path, "check") == (0, [])
    _readable(tmp_path)
    assert all(path.exists() for path in kept)


def test_a_repair_that_was_stopped_half_way_keeps_its_original_once(
    tmp_path: Path, folder: Path
) -> None:
    first = min(folder.glob("*.log"))
    _flip(first, 100)
    kept = first.with_name(first.name + ".damaged")
    kept.hardlink_to(first)
    before = kept.read_bytes()
    _run(tmp_path, "repair", "--write")
    assert kept.read_bytes() == before != first.read_bytes()
    assert list(folder.glob("*.damaged*")) == [kept]


def test_a_log_that_lost_its_end_keeps_its_offsets(tmp_path: Path, folder: Path) -> None:
    last = max(path for path in folder.glob("*.log") if path.stat().st_size)
    last.unlink()
    status, [found] = _run(tmp_path, "check")
    assert status == 1
    assert str(found["offsets"]).endswith(f"-{MESSAGES - 1}']")
    _run(tmp_path, "repair", "--write")
    assert _run(tmp_path, "check") == (0, [])
    offsets, end = _readable(tmp_path)
    assert offsets == list(range(len(offsets)))
    assert end == MESSAGES


def test_after_a_crash_a_torn_end_is_cut_off(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "data" / "clean-shutdown").unlink()
    last = max(path for path in folder.glob("*.log") if path.stat().st_size)
    last.write_bytes(last.read_bytes()[:-5])
    status, [found] = _run(tmp_path, "check")
    assert (status, found["offsets"]) == (1, [])
    _run(tmp_path, "repair", "--write")
    assert _run(tmp_path, "check") == (0, [])
    assert _readable(tmp_path)[1] == MESSAGES - 1


def test_small_files_and_metadata_are_checked_too(tmp_path: Path, folder: Path) -> None:
    _flip(folder / "partition.json", 20)
    [log] = (tmp_path / "data" / "metadata").glob("log-*")
    log.write_bytes(log.read_bytes()[:28])
    status, found = _run(tmp_path, "check")
    assert status == 1
    assert [row["file"] for row in found] == ["metadata", "logs/t-0/partition.json"]
    assert "when the broker stopped" in str(found[0]["problem"])


def test_a_folder_in_use_and_one_of_somebody_else_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = await _open(tmp_path)
        refused = await asyncio.to_thread(
            CliRunner().invoke, app, ["data", "check", "--data-dir", str(tmp_path / "data")]
        )
        assert refused.exit_code == 1
        assert "in use by a broker; stop it first" in refused.stderr
        await broker.close()

    asyncio.run(scenario())
    refused = CliRunner().invoke(app, ["data", "check", "--data-dir", str(tmp_path)])
    assert refused.exit_code == 1
    assert "is not the data directory of a broker" in refused.stderr
    options = ["--data-dir", str(tmp_path / "data")]
    unknown = CliRunner().invoke(app, ["data", "check", "x-0", *options])
    assert "has no partition 'x-0'" in unknown.stderr


def test_files_of_another_partition_and_a_damaged_format_are_found(
    tmp_path: Path, folder: Path
) -> None:
    identity = folder / "partition.json"
    other = folder.with_name("u-0")
    shutil.copytree(folder, other)
    format_file = tmp_path / "data" / "format.json"
    format_file.write_bytes(format_file.read_bytes() * 2)

    code, rows = _run(tmp_path, "check")

    assert code == 1
    assert [row["file"] for row in rows[:2]] == ["format.json", f"logs/u-0/{identity.name}"]
    assert rows[1]["problem"] == "it is that of t-0"
    assert all("another segment" in str(row["problem"]) for row in rows[2:])


def test_strays_are_listed_and_removed_when_asked(tmp_path: Path, folder: Path) -> None:
    stray = tmp_path / "data" / "strays" / "0123-0.1"
    shutil.copytree(folder, stray)

    code, [row] = _run(tmp_path, "check")
    assert code == 1
    assert row["file"] == "strays/0123-0.1"
    assert row["problem"] == "the metadata did not know t-0"

    arguments = ["data", "remove-strays", "--data-dir", str(tmp_path / "data")]
    assert CliRunner().invoke(app, arguments).exit_code != 0
    assert stray.exists()
    assert CliRunner().invoke(app, [*arguments, "--yes"]).exit_code == 0
    assert not stray.exists()
    assert folder.exists()
    assert _run(tmp_path, "check") == (0, [])


NO_FILES = [
    "partition.json",
    "checkpoint.json",
    "leader-epochs.json",
    "aborted.transactions",
    "compaction.json",
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000030.producers",
]


@pytest.mark.parametrize("kind", ["folder", "dangling link", "loop"])
@pytest.mark.parametrize("name", NO_FILES)
def test_what_is_no_file_is_named(tmp_path: Path, folder: Path, name: str, kind: str) -> None:
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere" if kind == "dangling link" else name)
    for command in (["check"], ["repair"], ["repair", "--write"]):
        _, rows = _run(tmp_path, *command)
        (row,) = (row for row in rows if row["problem"] == "it is no file")
        assert row["file"] == f"logs/t-0/{name}"


@pytest.mark.parametrize("name", ["x", "-0", "x--1", "t-2", "ü-0", "a\nb-0", "x-\u0663", "f" * 200])
def test_what_is_no_folder_is_named(tmp_path: Path, folder: Path, name: str) -> None:
    (folder.parent / name).write_text("somebody's")
    code, (row,) = _run(tmp_path, "check")
    assert code == 1
    assert row["problem"] == "it is no folder"
    (folder.parent / name).unlink()
    (folder.parent / name).mkdir()
    assert _run(tmp_path, "check") == (0, [])
    assert _readable(tmp_path)[1] == MESSAGES


@pytest.mark.parametrize("name", ["logs", "metadata", "clean-shutdown", "broker.lock"])
@pytest.mark.parametrize("kind", ["gone", "file", "loop"])
def test_odd_data_directories_end_in_a_sentence(
    tmp_path: Path, folder: Path, name: str, kind: str
) -> None:
    path = tmp_path / "data" / name
    path.rename(tmp_path / "away")
    if kind == "file":
        path.write_bytes(b"")
    elif kind == "loop":
        path.symlink_to(name)
    for command in (["check"], ["repair"], ["remove-strays", "--yes"]):
        arguments = ["data", *command, "--data-dir", str(tmp_path / "data")]
        assert isinstance(CliRunner().invoke(app, arguments).exception, SystemExit | None)
    assert kind != "gone" or not path.exists()


def test_removing_strays_follows_no_link_and_leaves_what_is_none(
    tmp_path: Path, folder: Path
) -> None:
    """It deleted the files of the partition that the link led to."""
    strays = tmp_path / "data" / "strays"
    strays.mkdir()
    (strays / "link").symlink_to(folder)
    (strays / "notes.txt").write_text("somebody's")
    shutil.copytree(folder, strays / "0123-0.1" / "deep")
    shutil.copytree(folder, strays / "0123-0.2")
    before = _contents(tmp_path)
    arguments = ["data", "remove-strays", "--yes", "--data-dir", str(tmp_path / "data")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "1 folders deleted" in result.output
    kept = {path: data for path, data in before.items() if "/0123-0.2/" not in path}
    assert _contents(tmp_path) == kept
    assert _readable(tmp_path)[1] == MESSAGES


def test_names_that_are_nearly_those_of_segments_are_left_alone(
    tmp_path: Path, folder: Path
) -> None:
    """They kept the partition from being opened."""
    for name in ("5.log", "\u0663.log", "5.index", "x.log", "9" * 30 + ".log", "9" * 20 + ".log"):
        (folder / name).write_bytes(b"{}")
    assert _run(tmp_path, "check") == (0, [])
    assert _readable(tmp_path)[1] == MESSAGES


class _ClosedTo(Disk):
    """To this user some paths are closed; root, who may run this, has no such paths."""

    def __init__(self, closed: Path, *, to: str) -> None:
        super().__init__()
        self._closed, self._to = closed, to

    def _enter(self, path: Path, act: str) -> None:
        if act == self._to and path.is_relative_to(self._closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

    def listdir(self, path: Path) -> list[str]:
        self._enter(path, "read")
        return super().listdir(path)

    def open(self, path: Path, flags: int) -> int:
        self._enter(path, "write" if flags & os.O_CREAT else "read")
        return super().open(path, flags)


def _close(monkeypatch: pytest.MonkeyPatch, closed: Path, *, to: str) -> None:
    monkeypatch.setattr("goqueue.storage.disk.Disk", lambda: _ClosedTo(closed, to=to))


def test_a_closed_folder_does_not_hide_what_is_wrong_with_others(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, closed := folder.with_name("a-0"))
    _flip(folder / f"{0:020d}.log", 70)
    _close(monkeypatch, closed, to="read")
    status, (first, second) = _run(tmp_path, "check")
    assert status == 1
    assert first["file"] == "logs/a-0"
    assert "Permission denied" in str(first["problem"])
    assert second["file"] == f"logs/t-0/{0:020d}.log"


def test_closed_strays_do_not_hide_what_is_wrong_with_logs(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "strays").mkdir()
    _flip(folder / f"{0:020d}.log", 70)
    _close(monkeypatch, tmp_path / "data" / "strays", to="read")
    status, (first, second) = _run(tmp_path, "check")
    assert status == 1
    assert first["file"] == "strays"
    assert "Permission denied" in str(first["problem"])
    assert second["file"] == f"logs/t-0/{0:020d}.log"


def test_what_cannot_be_repaired_is_said_and_others_are(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted(folder.glob("*.log"))[:2]
    _flip(first, 70)
    _flip(second, 70)
    _close(monkeypatch, first.with_name(first.name + ".mended.tmp"), to="write")
    status, rows = _run(tmp_path, "repair", "--write")
    assert status == 1
    assert str(rows[0]["repair"]).startswith("not done: ")
    assert str(rows[1]["repair"]).startswith("done")


def test_where_logs_ended_must_be_readable_and_whole(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it logs that lost their ends look whole."""
    note = tmp_path / "data" / "clean-shutdown"
    _flip(note, 20)
    status, (row,) = _run(tmp_path, "check")
    assert (status, row["file"]) == (1, note.name)
    _close(monkeypatch, note, to="read")
    arguments = ["data", "check", "--data-dir", str(tmp_path / "data")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "No damage" not in result.output
