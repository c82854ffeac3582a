"""Profiles: where a broker is and as whom to ask it, under a name, in a file of one's own.

~/.config/goqueue/profiles.toml (or below XDG_CONFIG_HOME), readable by its owner alone:

    current = "production"

    [profiles.production]
    bootstrap = "broker.example:9092"
    http = "https://broker.example:8080"
    ca-file = "/etc/goqueue/ca.crt"
    username = "alice"
    password-command = "pass show goqueue"
"""

import json
import os
import re
import stat
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from goqueue.model.client_security import MECHANISMS, NO_SECURITY, ClientSecurity
from goqueue.model.errors import GoQueueError

PROFILE_VARIABLE: Final = "GOQUEUE_PROFILE"
PASSWORD_VARIABLE: Final = "GOQUEUE_PASSWORD"
# Where a profile may have its password from; one of them.
PASSWORD_FIELDS: Final = ("password", "password_file", "password_command", "password_env")
# A password manager may ask its user something first.
_COMMAND_TIMEOUT_S: Final = 60.0
_BYTES_MAX: Final = 1024 * 1024
_OWNER_ONLY: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_NAME: Final = re.compile(r"[A-Za-z0-9_\-]{1,64}")


class ProfileProblem(GoQueueError):
    """The message names the file, the profile and the field."""

    code = "profile_problem"


class Profile(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="kebab",
    forbid_unknown_fields=True,
):  # fmt: skip
    """Whatever is empty is not said. `tls`: with the CAs that this machine trusts."""

    bootstrap: str = ""
    http: str = ""
    tls: bool = False
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    username: str = ""
    mechanism: str = ""
    password: str = ""
    password_file: str = ""
    password_command: str = ""
    password_env: str = ""
    api_key: str = ""
    api_key_env: str = ""

    def __repr__(self) -> str:
        """Profiles get into logs and tracebacks; what they hold must not."""
        return f"Profile(bootstrap={self.bootstrap!r}, username={self.username!r})"

    @property
    def has_tls(self) -> bool:
        return self.tls or bool(self.ca_file or self.certificate_file)

    def find_password(self) -> str | None:
        """From wherever it is; None where the profile has no user or says nothing of it."""
        if self.password:
            return self.password
        if self.password_file:
            return read_secret_file(Path(self.password_file).expanduser(), "password-file")
        if self.password_command:
            return _told_by(self.password_command)
        if self.password_env:
            return _of_environment(self.password_env, "password-env")
        return None

    def find_api_key(self) -> str | None:
        if self.api_key_env:
            return _of_environment(self.api_key_env, "api-key-env")
        return self.api_key or None

    def client_security(self) -> ClientSecurity:
        """For every protocol: Kafka's takes user and password, HTTP the API key before them.

        `ProfileProblem` for a user without a password, unless it is told by a variable.
        """
        password = self.find_password() or os.environ.get(PASSWORD_VARIABLE, "")
        if self.username and not password:
            raise ProfileProblem(
                f"username: no password of {self.username!r} is given; say one of "
                f"{', '.join(map(_shown, PASSWORD_FIELDS))}, or set {PASSWORD_VARIABLE}"
            )
        return self.security_with(password)

    def security_with(self, password: str) -> ClientSecurity:
        return ClientSecurity(
            tls=self.has_tls,
            ca_file=_full_path(self.ca_file),
            certificate_file=_full_path(self.certificate_file),
            key_file=_full_path(self.key_file),
            mechanism=(self.mechanism or MECHANISMS[0]) if self.username else "",
            username=self.username,
            password=password if self.username else "",
            token=self.find_api_key() or "",
        )

    def check(self, where: str) -> None:
        given = [name for name in PASSWORD_FIELDS if getattr(self, name)]
        if len(given) > 1:
            raise ProfileProblem(f"{where}: {' and '.join(map(_shown, given))} exclude each other")
        if given and not self.username:
            raise ProfileProblem(f"{where}: {_shown(given[0])} needs a username")
        if self.mechanism and self.mechanism not in MECHANISMS:
            raise ProfileProblem(
                f"{where}: mechanism: {self.mechanism!r} is none of {', '.join(MECHANISMS)}"
            )
        if bool(self.certificate_file) != bool(self.key_file):
            raise ProfileProblem(f"{where}: certificate-file and key-file go together")
        if self.api_key and self.api_key_env:
            raise ProfileProblem(f"{where}: api-key and api-key-env exclude each other")


class Profiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the file."""

    current: str = ""
    profiles: Mapping[str, Profile] = {}


class ProfilesFile:
    def __init__(self, path: Path | None = None) -> None:
        self.path = path or profiles_path()

    def load(self) -> Profiles:
        """Empty where there is no file; `ProfileProblem` where others could read it."""
        try:
            with self.path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                text = file.read(_BYTES_MAX)
        except FileNotFoundError:
            return Profiles()
        except OSError as error:
            raise ProfileProblem(f"{self.path}: {error.strerror}") from None
        if mode & _OTHERS:
            raise ProfileProblem(
                f"{self.path}: others than its owner may use the file (mode "
                f"{stat.S_IMODE(mode):o}), and it holds credentials; run: chmod 600 {self.path}"
            )
        try:
            found = msgspec.convert(tomllib.loads(text.decode()), Profiles)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            # Its words show a part of the line, which may be a password.
            raise ProfileProblem(f"{self.path}: is not valid TOML") from None
        except msgspec.ValidationError as error:
            raise ProfileProblem(f"{self.path}: {error}") from None
        for name, profile in found.profiles.items():
            profile.check(f"{self.path}: profile {name!r}")
        return found

    def find(self, name: str) -> Profile:
        found = self.load().profiles
        if name not in found:
            known = f"there are {', '.join(sorted(found))}" if found else "there is none"
            raise ProfileProblem(
                f"there is no profile {name!r} in {self.path}; {known}. Make it with "
                f"`goqueue profile create {name}`"
            )
        return found[name]

    def chosen(self, name: str | None) -> Profile | None:
        """By its name, else by `GOQUEUE_PROFILE`, else the one that is in use; None without any."""
        wanted = name or os.environ.get(PROFILE_VARIABLE) or self.load().current
        return self.find(wanted) if wanted else None

    def put(self, name: str, profile: Profile) -> None:
        check_profile_name(name)
        profile.check(f"profile {name!r}")
        found = self.load()
        self._save(Profiles(current=found.current, profiles={**found.profiles, name: profile}))

    def use(self, name: str) -> None:
        """An empty name: none is in use."""
        if name:
            self.find(name)
        self._save(Profiles(current=name, profiles=self.load().profiles))

    def delete(self, name: str) -> None:
        self.find(name)
        found = self.load()
        rest = {each: profile for each, profile in found.profiles.items() if each != name}
        self._save(Profiles(current="" if found.current == name else found.current, profiles=rest))

    def _save(self, content: Profiles) -> None:
        """At once or not at all."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            write_private(beside, _as_toml(content))
            beside.replace(self.path)
        except OSError as error:
            raise ProfileProblem(f"{self.path}: {error.strerror}") from None


def security_at(bootstrap_servers: str) -> ClientSecurity:
    found = profile_at(bootstrap_servers)
    return NO_SECURITY if found is None else found.client_security()


def profile_at(bootstrap_servers: str) -> Profile | None:
    """That of `GOQUEUE_PROFILE`, or the one in use if it is that of these brokers."""
    name = os.environ.get(PROFILE_VARIABLE)
    found = ProfilesFile().chosen(name)
    if found is None or (not name and found.bootstrap != bootstrap_servers):
        return None
    return found


def profiles_path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "goqueue" / "profiles.toml"


def check_profile_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise ProfileProblem(
            f"profile: {name!r} must have 1 to 64 ASCII letters, digits, hyphens and underscores"
        )


def write_private(path: Path, text: str) -> None:
    """A new file that its owner alone may read; `FileExistsError` where there is one."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY)
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(text)


def read_secret_file(path: Path, source: str) -> str:
    """The first line; `ProfileProblem` where there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            line = file.readline(_BYTES_MAX)
    except OSError as error:
        raise ProfileProblem(f"{source}: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ProfileProblem(f"{source}: {path}: is not UTF-8 text") from None
    secret = line.rstrip("\r\n")
    if not secret:
        raise ProfileProblem(f"{source}: {path}: the first line is empty")
    return secret


def toml_text(value: str) -> str:
    """A basic string of TOML, which JSON's are where nothing has to be a pair of surrogates."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _told_by(command: str) -> str:
    try:
        # The user's own line, as it would be typed.
        done = subprocess.run(
            command, shell=True, capture_output=True, timeout=_COMMAND_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ProfileProblem(
            f"password-command: did not end within {_COMMAND_TIMEOUT_S:g} s"
        ) from None
    if done.returncode:
        raise ProfileProblem(
            f"password-command: ended with code {done.returncode}: "
            f"{done.stderr.decode(errors='replace').strip()[:200]}"
        )
    line = done.stdout.decode(errors="replace").partition("\n")[0].rstrip("\r")
    if not line:
        raise ProfileProblem("password-command: printed nothing")
    return line


def _of_environment(name: str, field: str) -> str:
    found = os.environ.get(name)
    if not found:
        raise ProfileProblem(f"{field}: the variable {name} is not set")
    return found


def _full_path(text: str) -> str:
    return str(Path(text).expanduser()) if text else ""


def _shown(field: str) -> str:
    return field.replace("_", "-")


def _as_toml(content: Profiles) -> str:
    lines = []
    if content.current:
        lines += [f"current = {toml_text(content.current)}", ""]
    for name, profile in sorted(content.profiles.items()):
        lines.append(f"[profiles.{name}]")
        for field, value in msgspec.to_builtins(profile).items():
            told = "true" if value is True else toml_text(value)
            lines.append(f"{field} = {told}")
        lines.append("")
    return "\n".join(lines)
