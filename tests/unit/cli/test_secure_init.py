"""`goqueue secure init` where something is in its way: told what, and nothing left behind."""

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from goqueue.cli.main import app

Init = Callable[..., tuple[int, str]]


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Init:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("GOQUEUE_PROFILE", raising=False)

    def run(folder: Path, *options: str) -> tuple[int, str]:
        """The exit code, and what was said."""
        data = ["--data-dir", str(tmp_path / "data")]
        result = CliRunner().invoke(app, ["secure", "init", "--dir", str(folder), *data, *options])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result.exit_code, result.output

    return run


def test_a_folder_behind_a_link_is_left_as_it_was(tmp_path: Path, init: Init) -> None:
    assert init(tmp_path / "first")[0] == 0
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    code, said = init(link, "--profile", "other")
    assert (code, "user 'admin' is there already" in said) == (1, True)
    assert list(real.iterdir()) == []
    code, _ = init(link, "--profile", "other", "--admin", "root")
    assert code == 0
    assert (real / "root.password").is_file()


def test_a_link_to_nowhere_and_a_file(tmp_path: Path, init: Init) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "made")
    assert init(link)[0] == 0
    assert (tmp_path / "made" / "ca.pem").is_file()
    file = tmp_path / "file"
    file.touch()
    code, said = init(file, "--profile", "other")
    assert (code, "is no folder" in said) == (1, True)


def test_a_folder_of_somebody_else_is_no_place_for_secrets(
    tmp_path: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    code, said = init(folder)
    assert (code, "belongs to somebody else" in said) == (1, True)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "host",
    ["", " ", "a b", "a\nb", "x:9092", "https://x", "a/b", "-x", "1.2.3", "0.0.0.0", "::", "*"],
)
def test_what_nobody_can_connect_to_is_no_host(tmp_path: Path, init: Init, host: str) -> None:
    code, said = init(tmp_path / "security", f"--host={host}")
    assert code == 1
    assert "host" in said
    assert sorted(each.name for each in tmp_path.iterdir()) == []


def test_an_address_of_version_6_stands_in_brackets(tmp_path: Path, init: Init) -> None:
    assert init(tmp_path / "security", "--host", "2001:db8::1")[0] == 0
    written = tomllib.loads((tmp_path / "config/goqueue/profiles.toml").read_text())
    made = written["profiles"]["secured"]
    assert (made["bootstrap"], made["http"]) == (
        "[2001:db8::1]:9092",
        "https://[2001:db8::1]:8080",
    )
