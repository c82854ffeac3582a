"""Options of who a reader or writer is, and how it knows the broker.

`profile` names them all (`goqueue profile`); the others say the same one by one, in the words of
profiles and of librdkafka. Java's key stores are not read: PEM files are.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from goqueue.client.profiles import Profile, ProfilesFile, profile_at, security_at
from goqueue.model.client_security import ClientSecurity
from goqueue.model.errors import GoQueueError
from goqueue.spark.option_names import GivenOptions, InvalidOption

PROFILE: Final = "profile"
_FIELDS: Final[Mapping[str, str]] = {
    "username": "username",
    "password": "password",
    "password.file": "password_file",
    "sasl.mechanism": "mechanism",
    "ca.file": "ca_file",
    "certificate.file": "certificate_file",
    "key.file": "key_file",
    "api.key": "api_key",
}
_PROTOCOL: Final = "security.protocol"
SECURITY_OPTIONS: Final = (PROFILE, _PROTOCOL, *_FIELDS)
SECURITY_ALIASES: Final[Mapping[str, str]] = {
    **{f"goqueue.{name}": name for name in (PROFILE, *_FIELDS)},
    "goqueue.mechanism": "sasl.mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "ssl.ca.location": "ca.file",
    "ssl.certificate.location": "certificate.file",
    "ssl.key.location": "key.file",
}
_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")


def parse_security(options: GivenOptions, bootstrap_servers: str) -> ClientSecurity:
    """What the options say; without any, the profile of these brokers that is in use."""
    if not options.given(*SECURITY_OPTIONS):
        return security_at(bootstrap_servers)
    try:
        security = _profile(options).client_security()
    except GoQueueError as error:
        raise InvalidOption(error.message) from None
    _check_protocol(options, security)
    files = {
        "ca.file": security.ca_file,
        "certificate.file": security.certificate_file,
        "key.file": security.key_file,
    }
    for name, path in files.items():
        if path and not Path(path).is_file():
            raise InvalidOption(
                f"{name}: {path}: there is no such file; workers need it there, too"
            )
    return security


def http_of_profile(options: GivenOptions, bootstrap_servers: str) -> str:
    """Where HTTP is answered, for those whom brokers do not tell: that takes a right."""
    if options.text(PROFILE):
        return ProfilesFile().find(options.text(PROFILE)).http
    found = None if options.given(*SECURITY_OPTIONS) else profile_at(bootstrap_servers)
    return "" if found is None else found.http


def _profile(options: GivenOptions) -> Profile:
    profile = Profile()
    if options.text(PROFILE):
        profile = ProfilesFile().find(options.text(PROFILE))
    given = {field: options.text(name) for name, field in _FIELDS.items() if options.text(name)}
    if "password" in given or "password_file" in given:
        profile = msgspec.structs.replace(
            profile, password="", password_file="", password_command="", password_env=""
        )
    if "mechanism" in given:
        given["mechanism"] = given["mechanism"].upper()
    profile = msgspec.structs.replace(profile, **given)
    if "ssl" in options.text(_PROTOCOL).lower():
        profile = msgspec.structs.replace(profile, tls=True)
    profile.check("options")
    return profile


def _check_protocol(options: GivenOptions, security: ClientSecurity) -> None:
    """It says in other words what the others say, and must not say something else."""
    if not options.given(_PROTOCOL):
        return
    told = options.choice(_PROTOCOL, _PROTOCOLS, "plaintext")
    if "ssl" not in told and security.tls:
        raise InvalidOption(f"{_PROTOCOL}: {told.upper()} goes with no certificates")
    if told.startswith("sasl") != (security.sasl_mechanism is not None):
        what = "needs a username" if told.startswith("sasl") else "goes with no username"
        raise InvalidOption(f"{_PROTOCOL}: {told.upper()} {what}")
