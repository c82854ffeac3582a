"""A small backup under load; `python -m tests.crash.backups` makes large ones."""

from pathlib import Path

import pytest

from tests.crash.backups import run


def test_a_backup_under_load_is_what_clients_were_told(tmp_path: Path) -> None:
    figures = run(tmp_path, gigabytes=0.05, cluster=False, seed=1, rate=None)
    assert figures["bytes"] > 50_000_000
    assert figures["new_bytes_again"] < figures["bytes"]


@pytest.mark.slow
def test_of_a_whole_cluster(tmp_path: Path) -> None:
    figures = run(tmp_path, gigabytes=0.05, cluster=True, seed=1, rate=None)
    assert figures["bytes"] > 50_000_000
