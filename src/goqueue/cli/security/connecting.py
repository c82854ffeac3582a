"""As whom commands ask, and where: options, variables and profiles, in falling order.

The options belong to every command that talks to a broker, and are added to all of them in one
place (`add_connection_options`), so that a new command cannot forget them.
"""

import getpass
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import typer
from typer.core import TyperOption

from goqueue.cli.failures import CommandFailed

if TYPE_CHECKING:
    from goqueue.client.profiles import Profile
    from goqueue.model.client_security import ClientSecurity

PASSWORD_VARIABLE: Final = "GOQUEUE_PASSWORD"
_PANEL: Final = "As whom, and to which broker"


@dataclass
class Connection:
    """What was said at one run of the command; each is asked for when it is needed."""

    profile_name: str | None = None
    username: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    api_key: str | None = None
    # Where --bootstrap or its variable says so.
    bootstrap: str | None = None
    _profile: "Profile | None" = None

    def profile(self) -> "Profile":
        """The one that was chosen, with what options and variables say instead of it."""
        if self._profile is None:
            self._profile = self._resolved()
        return self._profile

    def _resolved(self) -> "Profile":
        from goqueue.client.profiles import Profile, ProfilesFile

        found = ProfilesFile().chosen(self.profile_name) or Profile()
        if self.profile_name is None and self._is_elsewhere(found):
            # Nobody named the profile, and its password is for its own broker.
            found = Profile()
        if self.username:
            found = msgspec.structs.replace(
                _without_password(found), username=self.username, api_key="", api_key_env=""
            )
        if self.password_file:
            found = msgspec.structs.replace(
                _without_password(found), password_file=self.password_file
            )
        if self.ca_file:
            found = msgspec.structs.replace(found, ca_file=self.ca_file)
        if self.api_key:
            found = msgspec.structs.replace(found, api_key=self.api_key, api_key_env="")
        return found

    def http_url(self) -> str:
        """Of the profile, unless another broker is meant."""
        profile = self.profile()
        return "" if self._is_elsewhere(profile) else profile.http

    def _is_elsewhere(self, profile: "Profile") -> bool:
        return self.bootstrap is not None and self.bootstrap != profile.bootstrap

    def security(self) -> "ClientSecurity":
        """For HTTP, where an API key goes before a password."""
        profile = self.profile()
        return profile.security_with(_password(profile) if profile.username else "")

    def kafka_security(self) -> "ClientSecurity":
        """For Kafka's protocol, which knows no API keys."""
        found = self.security()
        if found.token and not found.username:
            raise CommandFailed(
                "an API key is for HTTP; this command speaks Kafka's protocol, too: give "
                "--username, or a profile with one"
            )
        return replace(found, token="")


_current: ContextVar[Connection] = ContextVar("connection")


def connection() -> Connection:
    """Of the command that runs; one that says nothing, where none does."""
    try:
        return _current.get()
    except LookupError:
        return begin_connection()


def begin_connection() -> Connection:
    """A command begins: what an earlier one of the same process said is over."""
    begun = Connection()
    _current.set(begun)
    return begun


def http_security() -> "ClientSecurity":
    return connection().security()


def kafka_security() -> "ClientSecurity":
    return connection().kafka_security()


def bootstrap_of_profile(context: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """For --bootstrap: the profile's holds where nothing else was said."""
    source = context.get_parameter_source(param.name or "")
    if context.resilient_parsing:
        return value
    if source is not None and source.name != "DEFAULT":
        connection().bootstrap = value
        return value
    return connection().profile().bootstrap or value


def add_connection_options(command: Any) -> None:
    """To a command with `--bootstrap`, or to those below a group."""
    for below in getattr(command, "commands", {}).values():
        add_connection_options(below)
    if any(param.name == "bootstrap" for param in command.params):
        command.params.extend(_OPTIONS)


def profile_option() -> TyperOption:
    """The same before the command's name: `goqueue --profile production topics list`."""
    return _OPTIONS[0]


def _stored(field: str) -> Callable[[Any, Any, Any], Any]:
    def callback(_context: Any, _param: Any, value: Any) -> Any:
        if value is not None:
            setattr(connection(), field, value)
        return value

    return callback


def _option(name: str, field: str, metavar: str, variable: str | None, text: str) -> TyperOption:
    return TyperOption(
        param_decls=[name],
        callback=_stored(field),
        # Before the options that a profile has values for.
        is_eager=True,
        expose_value=False,
        metavar=metavar,
        envvar=variable,
        show_envvar=variable is not None,
        help=text,
        rich_help_panel=_PANEL,
    )


_OPTIONS: Final = (
    _option(
        "--profile",
        "profile_name",
        "NAME",
        "GOQUEUE_PROFILE",
        "Address, TLS and credentials by a name; see `goqueue profile`.",
    ),
    _option("--username", "username", "NAME", "GOQUEUE_USERNAME", "Log in as this user."),
    _option(
        "--password-file",
        "password_file",
        "FILE",
        "GOQUEUE_PASSWORD_FILE",
        "Its password, in the first line. Else GOQUEUE_PASSWORD has it, or it is asked for.",
    ),
    _option(
        "--ca-file", "ca_file", "FILE", "GOQUEUE_CA_FILE", "Speak TLS, and trust these CAs (PEM)."
    ),
    _option(
        "--api-key",
        "api_key",
        "gqk_…",
        "GOQUEUE_API_KEY",
        "A key for HTTP. Others on this machine see command lines: the variable is safer.",
    ),
)


def _without_password(profile: "Profile") -> "Profile":
    return msgspec.structs.replace(
        profile, password="", password_file="", password_command="", password_env=""
    )


def _password(profile: "Profile") -> str:
    found = profile.find_password() or os.environ.get(PASSWORD_VARIABLE)
    if found:
        return found
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"no password of {profile.username!r} is given: use --password-file, "
            f"{PASSWORD_VARIABLE}, or a profile with one (`goqueue profile create`)"
        )
    return getpass.getpass(f"Password of {profile.username}: ")
