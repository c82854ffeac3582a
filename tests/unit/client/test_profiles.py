"""Profiles: what the file says, who may read it, and where passwords come from."""

from pathlib import Path

import pytest

from goqueue.client.profiles import (
    PROFILE_VARIABLE,
    Profile,
    ProfileProblem,
    ProfilesFile,
    profiles_path,
    toml_text,
)

FULL = Profile(
    bootstrap="b:9092",
    http="https://b:8080",
    tls=True,
    ca_file="/ca",
    certificate_file="/c",
    key_file="/k",
    username='alice "quotes" \\ ü \x7f',
    mechanism="SCRAM-SHA-512",
    password="p4ss\\word\n\t😀",
    api_key="gqk_1_2",
)


@pytest.fixture
def file(tmp_path: Path) -> ProfilesFile:
    return ProfilesFile(tmp_path / "new" / "profiles.toml")


def test_what_is_written_is_read(file: ProfilesFile) -> None:
    assert file.load().profiles == {}
    file.put("prod", FULL)
    file.put("bare", Profile(bootstrap="x:1"))
    assert file.load().profiles == {"prod": FULL, "bare": Profile(bootstrap="x:1")}
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.path.parent.iterdir()] == ["profiles.toml"]


def test_which_one_is_chosen(file: ProfilesFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROFILE_VARIABLE, raising=False)
    assert file.chosen(None) is None
    file.put("a", Profile(bootstrap="a:1"))
    file.put("b", Profile(bootstrap="b:1"))
    file.put("c", Profile(bootstrap="c:1"))
    file.use("a")
    assert file.chosen(None) == Profile(bootstrap="a:1")
    monkeypatch.setenv(PROFILE_VARIABLE, "b")
    assert file.chosen(None) == Profile(bootstrap="b:1")
    assert file.chosen("c") == Profile(bootstrap="c:1")
    monkeypatch.delenv(PROFILE_VARIABLE)
    file.delete("a")
    assert file.chosen(None) is None
    with pytest.raises(ProfileProblem, match=r"no profile 'a'.*there are b, c"):
        file.use("a")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("password = hunter2", "is not valid TOML"),
        ("[profiles.a]\nusrname = 'x'", "usrname"),
        ("[profiles.a]\nmechanism = 'MD5'", "'MD5' is none of"),
        ("[profiles.a]\npassword = 'hunter2'", "needs a username"),
        (
            "[profiles.a]\nusername='u'\npassword = 'hunter2'\npassword-env='X'",
            "password and password-env exclude each other",
        ),
        ("[profiles.a]\ncertificate-file = 'c'", "certificate-file and key-file go together"),
    ],
)
def test_what_is_refused_shows_no_password(file: ProfilesFile, text: str, told: str) -> None:
    file.put("x", Profile(bootstrap="x:1"))
    file.path.write_text(text)
    with pytest.raises(ProfileProblem) as refused:
        file.load()
    assert told in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_file_that_others_can_read_is_refused(file: ProfilesFile) -> None:
    file.put("x", Profile(bootstrap="x:1"))
    file.path.chmod(0o644)
    with pytest.raises(ProfileProblem, match="chmod 600"):
        file.load()


@pytest.mark.parametrize("name", ["", "a b", "../x", "ä", "x" * 65, "a.b"])
def test_names(file: ProfilesFile, name: str) -> None:
    with pytest.raises(ProfileProblem, match="must have 1 to 64"):
        file.put(name, Profile())


def test_where_passwords_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from the file\nnot this\n")
    monkeypatch.setenv("MY_PASSWORD", "from the environment")
    assert Profile(username="u").find_password() is None
    assert Profile(password="itself").find_password() == "itself"
    assert Profile(password_file=str(secret)).find_password() == "from the file"
    assert Profile(password_command="echo told; echo more").find_password() == "told"
    assert Profile(password_env="MY_PASSWORD").find_password() == "from the environment"
    monkeypatch.delenv("MY_PASSWORD")
    for profile, told in (
        (Profile(password_env="MY_PASSWORD"), "MY_PASSWORD is not set"),
        (Profile(password_command="echo no >&2; exit 3"), "ended with code 3: no"),
        (Profile(password_command="true"), "printed nothing"),
        (Profile(password_file=str(tmp_path / "none")), "No such file"),
    ):
        with pytest.raises(ProfileProblem, match=told):
            profile.find_password()


def test_a_profile_in_a_log_shows_no_secret() -> None:
    assert "p4ss" not in repr(FULL)
    assert "gqk" not in str(FULL)


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert profiles_path() == tmp_path / "goqueue" / "profiles.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert profiles_path() == tmp_path / "home" / ".config" / "goqueue" / "profiles.toml"


def test_text_in_toml() -> None:
    assert toml_text('a"\\\x7f') == '"a\\"\\\\\\u007f"'
