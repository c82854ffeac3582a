"""What `goqueue secure init` writes, in which order, and what it takes back when a step fails."""

import base64
import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from goqueue.broker.security.master_key import FILE_NAME as MASTER_KEY_FILE
from goqueue.broker.security.master_key import make_master_key
from goqueue.broker.security.users import records_of
from goqueue.cli.failures import CommandFailed
from goqueue.cli.security.passwords import GENERATED_BYTES
from goqueue.cli.security.stopped_users import create_stopped
from goqueue.client.profiles import (
    Profile,
    ProfilesFile,
    check_profile_name,
    toml_text,
    write_private,
)
from goqueue.model.security.errors import UserExists
from goqueue.model.security.users import check_user_name
from goqueue.server.tls.making import MadeCertificates, make_certificates

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
CONFIG_FILE: Final = "goqueue.toml"
USERS_FILE: Final = "first-users.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """`hosts` empty: this machine alone."""

    folder: Path
    data_dir: Path
    hosts: tuple[str, ...]
    admin: str
    profile: str
    kafka_port: int
    http_port: int
    for_cluster: bool

    def run(self) -> str:
        """What to tell the user."""
        self._check()
        profiles = ProfilesFile()
        was_there = self.folder.exists()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        try:
            password_file = self._write()
        except UserExists as error:
            self._take_back(was_there=was_there)
            raise CommandFailed(
                f"{self.data_dir}: {error.message}; choose another --admin"
            ) from None
        except BaseException:
            self._take_back(was_there=was_there)
            raise
        host = self.hosts[0] if self.hosts else LOCAL_HOSTS[0]
        host = f"[{host}]" if ":" in host else host
        profiles.put(
            self.profile,
            Profile(
                bootstrap=f"{host}:{self.kafka_port}",
                http=f"https://{host}:{self.http_port}",
                ca_file=str(self.folder / "ca.pem"),
                username=self.admin,
                password_file=str(password_file),
            ),
        )
        is_used = not profiles.load().current
        if is_used:
            profiles.use(self.profile)
        return self._next_steps(profiles.path, password_file, is_used=is_used)

    def _check(self) -> None:
        check_user_name(self.admin)
        if "/" in self.admin or self.admin.startswith("."):
            raise CommandFailed(f"--admin: {self.admin!r} is part of the name of a file here")
        check_profile_name(self.profile)
        if self.hosts and self.hosts[0].startswith("*"):
            raise CommandFailed(
                f"--host: clients are told the first one, so that it cannot be {self.hosts[0]!r}"
            )
        self._check_folder()
        profiles = ProfilesFile()
        if self.profile in profiles.load().profiles:
            raise CommandFailed(
                f"{profiles.path} has a profile {self.profile!r} already; choose another --profile"
            )

    def _check_folder(self) -> None:
        if not self.folder.exists():
            return
        if not self.folder.is_dir():
            raise CommandFailed(f"--dir: {self.folder} is no folder")
        if self.folder.stat().st_uid != os.geteuid():
            # Its owner could put other files in their place.
            raise CommandFailed(f"--dir: {self.folder} belongs to somebody else")
        if any(self.folder.iterdir()):
            raise CommandFailed(
                f"{self.folder} is not empty, and nothing is written over: choose another --dir; "
                "for a new certificate of the same CA there is `goqueue secure renew`"
            )

    def _write(self) -> Path:
        made = make_certificates(self.folder, [*self.hosts, *LOCAL_HOSTS])
        made.broker.chmod(0o600)
        made.ca.chmod(0o600)
        master_key = self.folder / MASTER_KEY_FILE
        make_master_key(master_key)
        password = secrets.token_urlsafe(GENERATED_BYTES)
        password_file = self.folder / f"{self.admin}.password"
        write_private(password_file, password + "\n")
        write_private(self.folder / CONFIG_FILE, self._settings(made, master_key))
        if self.for_cluster:
            write_private(self.folder / USERS_FILE, _first_users(self.admin, password))
        else:
            create_stopped(
                self.admin,
                password,
                is_admin=True,
                tenant="",
                data_dir=self.data_dir,
                cluster=None,
                config_file=None,
            )
        return password_file

    def _take_back(self, *, was_there: bool) -> None:
        made = self.folder.iterdir() if was_there else [self.folder]
        for each in made:
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)

    def _settings(self, made: MadeCertificates, master_key: Path) -> str:
        lines = ["# Written by `goqueue secure init`; see docs/security.md."]
        if not self.for_cluster:
            lines.append(f"data.dir = {toml_text(str(self.data_dir))}")
        lines += [f"kafka.port = {self.kafka_port}", f"http.port = {self.http_port}"]
        if self.hosts:
            lines.append('host = "0.0.0.0"')
        if self.hosts and not self.for_cluster:
            lines.append(f"advertised.host = {toml_text(self.hosts[0])}")
        lines += [
            "",
            "security.enabled = true",
            f"security.master.key.file = {toml_text(str(master_key))}",
        ]
        if self.for_cluster:
            users_file = self.folder / USERS_FILE
            lines.append(f"security.bootstrap.file = {toml_text(str(users_file))}")
        lines += [
            "",
            f"tls.certificate.file = {toml_text(str(made.broker))}",
            f"tls.key.file = {toml_text(str(made.broker_key))}",
            f"tls.ca.file = {toml_text(str(made.ca))}",
            "",
        ]
        return "\n".join(lines)

    def _next_steps(self, profiles: Path, password_file: Path, *, is_used: bool) -> str:
        config = _from_here(self.folder / CONFIG_FILE)
        option = "" if is_used else f" --profile {self.profile}"
        who = (
            f"{_from_here(self.folder / USERS_FILE)}, read by the first broker of the cluster"
            if self.for_cluster
            else f"{_from_here(self.data_dir)}"
        )
        start = f"goqueue serve --config {config}"
        if self.for_cluster:
            start += " --node-id 1 --cluster etcd://HOST:2379 --set advertised.host=HOST"
        return f"""\
certificates   {_from_here(self.folder)}: of the CA (keep ca.key safe) and of the broker
master key     {_from_here(self.folder / MASTER_KEY_FILE)}: SQS secrets are made from it
administrator  {self.admin}, in {who}
password       {_from_here(password_file)}
settings       {config}
profile        {self.profile}, in {_from_home(profiles)}

Start the broker, and send a message:

  {start}
  goqueue{option} produce orders 'two coffees'"""


def _from_here(path: Path) -> str:
    """As short as it can be written in this folder."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _from_home(path: Path) -> str:
    try:
        return str(Path("~") / path.relative_to(Path.home()))
    except ValueError:
        return str(path)


def _first_users(admin: str, password: str) -> str:
    """Without the password itself: what proves it is enough."""
    lines = ["[[users]]", f"name = {toml_text(admin)}", "admin = true"]
    for mechanism, record in records_of(password).items():
        lines += [
            f"[users.scram.{json.dumps(mechanism)}]",
            f'salt = "{base64.b64encode(record.salt).decode()}"',
            f"iterations = {record.iterations}",
            f'stored_key = "{base64.b64encode(record.stored_key).decode()}"',
            f'server_key = "{base64.b64encode(record.server_key).decode()}"',
        ]
    return "\n".join([*lines, ""])


def hosts_of_certificate(path: Path) -> list[str]:
    """Names and addresses that it is for."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        raise CommandFailed(f"{path}: is no certificate with names; say them with --host") from None
    addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    return [*names.get_values_for_type(x509.DNSName), *addresses]
