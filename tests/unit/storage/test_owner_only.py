"""What lies on the disk is the broker's alone; folders of earlier releases are mended."""

from pathlib import Path

import pytest

from goqueue.backup.stores import FolderStore
from goqueue.broker.security.users import records_of
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.access import Access
from goqueue.storage.owner_only import take_from_others
from goqueue.storage.rotated_lines import RotatedLines
from tests.callers import ANYONE
from tests.unit.broker.conftest import OpenBroker, open_broker

__all__ = ["open_broker"]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def readable_by_others(folder: Path) -> list[str]:
    return sorted(str(path) for path in (folder, *folder.rglob("*")) if mode(path) & 0o077)


@pytest.mark.anyio
async def test_what_a_broker_makes_is_its_own(open_broker: OpenBroker, tmp_path: Path) -> None:
    for run in range(2):
        async with open_broker(security__enabled="true", super__users="User:ANONYMOUS") as node:
            service = BrokerService(node)
            await service.topics.ensure(ANYONE, "orders")
            right = Access().alterable_cluster(ANYONE)
            if "alice" not in node.security.image.users:
                await node.security.users.create(right, "alice", scram=records_of("secret"))
            assert node.security.master_key is not None
            await service.topics.create(ANYONE, NewTopic(name=f"t{run}"))
    data = tmp_path / "data"
    assert (data / "audit").is_dir()
    assert (data / "master.key").is_file()
    assert readable_by_others(data) == []


@pytest.mark.anyio
async def test_folders_of_earlier_releases_are_mended_with_one_line(
    open_broker: OpenBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_broker():
        pass
    data = tmp_path / "data"
    for path in (data, data / "metadata"):
        path.chmod(0o755)
    files = [path for path in (data / "metadata").iterdir() if path.is_file()]
    for path in files:
        path.chmod(0o644)
    async with open_broker():
        # While security is off there is nothing to hide, and nothing is changed.
        assert mode(data) == 0o755
    assert caplog.text == ""
    async with open_broker(security__enabled="true"):
        pass
    assert (mode(data), mode(data / "metadata")) == (0o700, 0o700)
    assert not [path for path in (data / "metadata").iterdir() if mode(path) & 0o077]
    [line] = [each.getMessage() for each in caplog.records if "others" in each.getMessage()]
    assert "could read" in line
    caplog.clear()
    async with open_broker(security__enabled="true"):
        pass
    assert "others" not in caplog.text


def test_links_are_left_alone(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    (folder / "metadata").mkdir(parents=True)
    elsewhere.write_text("not ours")
    elsewhere.chmod(0o644)
    (folder / "metadata" / "link").symlink_to(elsewhere)
    take_from_others(folder, ("metadata", "missing"))
    assert mode(elsewhere) == 0o644
    assert mode(folder) == 0o700


def test_objects_of_backups_are_for_their_owner(tmp_path: Path) -> None:
    FolderStore(tmp_path / "backups", "backups").put("catalogue/one", b"metadata")
    assert readable_by_others(tmp_path / "backups") == []


def test_the_last_lines_are_whole(tmp_path: Path) -> None:
    lines = RotatedLines(tmp_path / "notes", "notes", max_bytes=100, max_files=10)
    for number in range(30):
        lines.write(b"line %02d\n" % number)
    lines.close()
    assert len(lines.paths()) == 3
    assert lines.last_lines(10_000) == [b"line %02d" % number for number in range(30)]
    assert lines.last_lines(44)[-5:] == [b"line %02d" % number for number in range(25, 30)]
    assert all(line.startswith(b"line ") for line in lines.last_lines(83))
    [*_, newest] = sorted(lines.paths())
    with newest.open("ab") as file:
        file.write(b"cut o")
    assert lines.last_lines(10_000)[-1] == b"line 29"
    lines.write(b"line 30\n")
    assert lines.last_lines(10_000)[-2:] == [b"cut o", b"line 30"]
