"""Compiled code where many workers begin at once, and where nothing can be kept."""

import multiprocessing
import tempfile
import time
from pathlib import Path

import pytest

from goqueue.spark.native_code import load_compiled, native, sources_stamp

WORKERS = 3


def _work(folder: str, source: str) -> None:
    tempfile.tempdir = folder
    notes = Path(folder, "notes")

    def load() -> None:
        with notes.open("a") as file:
            file.write("begun\n")
        time.sleep(0.1)  # others would begin in between
        with notes.open("a") as file:
            file.write("ended\n")

    load_compiled(source, load)


def test_one_worker_compiles_while_the_others_wait(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_work, args=(str(tmp_path), __file__)) for _ in range(WORKERS)
    ]
    for each in workers:
        each.start()
    for each in workers:
        each.join(60)
        assert each.exitcode == 0
    notes = (tmp_path / "notes").read_text().splitlines()
    # Once it is kept, loading takes no time, and nobody waits.
    assert notes[:2] == ["begun", "ended"]
    assert notes.count("ended") == WORKERS


def test_no_place_for_notes_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    loaded: list[int] = []
    load_compiled(__file__, lambda: loaded.append(1))
    assert loaded == [1]


def test_code_runs_where_it_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core import caching

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])

    @native
    def double(number: int) -> int:
        return number * 2

    assert double(21) == 42


def test_kept_code_is_compiled_anew_when_another_file_changes(tmp_path: Path) -> None:
    memory = tmp_path / "native_memory.py"
    inner = tmp_path / "source" / "columnar" / "appending.py"
    inner.parent.mkdir(parents=True)
    stamps = set()
    for path in (memory, inner):
        for content in ("@native before", "@native after"):
            path.write_text(content)
            sources_stamp.cache_clear()
            stamps.add(sources_stamp(tmp_path))
    assert len(stamps) == 4
    kept = _halved._cache._cache_file  # type: ignore[attr-defined]
    assert kept._source_stamp[1] == sources_stamp()


@native
def _halved(number: int) -> int:
    return number // 2
