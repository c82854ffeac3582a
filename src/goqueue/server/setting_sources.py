"""Broker settings from a TOML file, the environment and the command line, in rising order.

Every source may name every setting of `BROKER_SETTINGS`, and every topic setting behind `topic.`
as the default for all topics. A name that is unknown or a value that is bad is refused with the
place it came from, so that a typing error never passes in silence. A setting of an earlier release
that says nothing any more is passed over with a warning.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from goqueue.model.broker_config import (
    BROKER_SETTINGS,
    TOPIC_DEFAULT_PREFIX,
    BrokerConfig,
    broker_config,
)
from goqueue.model.errors import InvalidConfig
from goqueue.model.settings import Setting
from goqueue.model.topic_config import TOPIC_SETTINGS, topic_config
from goqueue.model.units import in_plain_units

logger = logging.getLogger(__name__)

_BESIDE: Final = "what it divided is kept beside each topic now, in as many partitions as that has"
# Settings of earlier releases, and why there is nothing to be set any more.
GONE_SETTINGS: Final[Mapping[str, str]] = {
    "queue.state.num.partitions": _BESIDE,
    "delayed.topic.num.partitions": _BESIDE,
}

VARIABLE_PREFIX: Final = "GOQUEUE_"
CONFIG_FILE_VARIABLE: Final = "GOQUEUE_CONFIG"
# Read by the client commands; a broker started from the same shell must not trip over them.
CLIENT_VARIABLES: Final = (
    "GOQUEUE_BOOTSTRAP",
    "GOQUEUE_HTTP_URL",
    "GOQUEUE_OUTPUT",
    "GOQUEUE_PROFILE",
    "GOQUEUE_USERNAME",
    "GOQUEUE_PASSWORD",
    "GOQUEUE_PASSWORD_FILE",
    "GOQUEUE_CA_FILE",
    "GOQUEUE_API_KEY",
)
# Read by the broker where it looks for its master key, and kept out of the settings: those are
# shown to administrators.
SECRET_VARIABLES: Final = ("GOQUEUE_MASTER_KEY",)

# Kubernetes and Docker describe a service named goqueue(-something) to every container with such
# variables; they are not settings.
_SERVICE_LINK: Final = re.compile(
    r"GOQUEUE(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
_SERVICE_LINK_URL: Final = re.compile(r"(tcp|udp|sctp)://")


def all_setting_names() -> list[str]:
    return [*BROKER_SETTINGS, *(TOPIC_DEFAULT_PREFIX + name for name in TOPIC_SETTINGS)]


def find_setting(name: str) -> Setting | None:
    if name.startswith(TOPIC_DEFAULT_PREFIX):
        return TOPIC_SETTINGS.get(name.removeprefix(TOPIC_DEFAULT_PREFIX))
    return BROKER_SETTINGS.get(name)


def variable_name(setting_name: str) -> str:
    return VARIABLE_PREFIX + setting_name.replace(".", "_").upper()


def load_broker_config(
    *,
    config_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Merge the sources; a later one wins. `GOQUEUE_CONFIG` names the file if none is given."""
    environment = environment or {}
    if config_file is None and environment.get(CONFIG_FILE_VARIABLE):
        config_file = Path(environment[CONFIG_FILE_VARIABLE])
    texts: dict[str, str] = {}
    if config_file is not None:
        texts.update(read_config_file(config_file))
    texts.update(read_environment(environment))
    for name, text in (options or {}).items():
        if not _is_gone("command line", name):
            texts[name] = _checked("command line", name, text)
    config = broker_config(texts)
    topic_config({}, config.topic_defaults)
    return config


def settings_from_keywords(keywords: Mapping[str, object]) -> dict[str, str]:
    """Settings as Python keyword arguments: `num_partitions=1`, `topic_retention_ms=1000`."""
    names = {name.replace(".", "_"): name for name in all_setting_names()}
    texts = {}
    for keyword, value in keywords.items():
        if keyword not in names:
            raise InvalidConfig(f"{keyword}: no such setting{_suggestion(keyword, names)}")
        texts[names[keyword]] = _text(names[keyword], value)
    return texts


def read_config_file(path: Path) -> dict[str, str]:
    import tomllib  # most brokers have no file

    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise InvalidConfig(f"config file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"config file {path}: not valid TOML: {error}") from error
    texts: dict[str, str] = {}
    for name, value in _flatten(tables):
        source = f"config file {path}"
        if name in texts:
            raise InvalidConfig(f"{source}: {name}: given twice, flat and as a table")
        if not _is_gone(source, name):
            texts[name] = _checked(source, name, _text(name, value))
    return texts


def read_environment(environment: Mapping[str, str]) -> dict[str, str]:
    names = {variable_name(name): name for name in all_setting_names()}
    known = [*names, CONFIG_FILE_VARIABLE, *CLIENT_VARIABLES, *SECRET_VARIABLES]
    gone = {variable_name(name): name for name in GONE_SETTINGS}
    texts: dict[str, str] = {}
    for variable, text in environment.items():
        if not variable.startswith(VARIABLE_PREFIX) or _is_service_link(variable, text):
            continue
        if variable in names:
            texts[names[variable]] = _checked(f"variable {variable}", names[variable], text)
        elif variable in gone:
            _is_gone(f"variable {variable}", gone[variable])
        elif variable not in known:
            raise InvalidConfig(
                f"variable {variable}: no such setting{_suggestion(variable, known)}"
            )
    return texts


def _is_gone(source: str, name: str) -> bool:
    if name not in GONE_SETTINGS:
        return False
    logger.warning("%s: %s does nothing any more: %s", source, name, GONE_SETTINGS[name])
    return True


def _checked(source: str, name: str, text: str) -> str:
    setting = find_setting(name)
    if setting is None:
        hint = _suggestion(name, all_setting_names())
        raise InvalidConfig(f"{source}: {name}: no such setting{hint}")
    number = in_plain_units(name, text)
    try:
        setting.parse(number)
    except InvalidConfig as error:
        raise InvalidConfig(f"{source}: {error}") from error
    return number


def _suggestion(name: str, known: Iterable[str]) -> str:
    import difflib  # for those who mistype

    nearest = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def _is_service_link(variable: str, text: str) -> bool:
    if _SERVICE_LINK.fullmatch(variable):
        return True
    return variable.endswith("_PORT") and _SERVICE_LINK_URL.match(text) is not None


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        setting = find_setting(name)
        separator = "," if setting is None else setting.separator
        # Commas within items were always taken for several; nothing that is named by others may be.
        if separator != "," and any(separator in str(item) for item in value):
            raise InvalidConfig(f"{name}: none of its items can have {separator!r} in it")
        return separator.join(str(item) for item in value)
    return str(value)
