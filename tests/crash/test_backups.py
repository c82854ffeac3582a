"""Small backups under load; `python -m tests.crash.backups` makes large ones."""

from pathlib import Path

import pytest

from tests.crash.backups import run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("cluster", [False, True], ids=["one broker", "three brokers"])
def test_a_backup_under_load_is_what_clients_were_told(tmp_path: Path, cluster: bool) -> None:
    figures = run(tmp_path, gigabytes=0.05, cluster=cluster, seed=1, rate=None)
    assert sum(figures["compared"].values()) > 50_000_000
