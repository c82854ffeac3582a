"""Levels of this process' log lines, changed while it runs as Kafka's loggers are (KIP-412).

They are not kept: a restart goes back to `log.level`.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from goqueue.model.configs import ConfigChange, ConfigEntry, ConfigOp, ConfigSource, ConfigSynonym
from goqueue.model.errors import InvalidConfig, InvalidRequest
from goqueue.model.names import NodeId
from goqueue.model.rights import ConfigurableCluster, InspectableCluster
from goqueue.model.settings import SettingType

_OURS: Final = "goqueue"
# Kafka's words for them; Python has nothing below debug.
_LEVELS: Final[Mapping[str, int]] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}


class LogLevels:
    def __init__(self, node_id: NodeId) -> None:
        self._node_id = node_id

    def describe(self, _cluster: InspectableCluster, broker: str) -> list[ConfigEntry]:
        self._check_own(broker)
        return [_entry(name) for name in _names()]

    def alter(
        self,
        _cluster: ConfigurableCluster,
        broker: str,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """All are checked before any is changed."""
        self._check_own(broker)
        known = frozenset(_names())
        levels = {change.name: _level(change, known) for change in changes}
        if not validate_only:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)

    def _check_own(self, broker: str) -> None:
        if broker != str(self._node_id):
            raise InvalidRequest(
                f"log levels of broker {broker!r} are known to itself alone; this is broker "
                f"{self._node_id}"
            )


def _names() -> list[str]:
    """Of loggers, and of what stands above them."""
    below = (name for name in logging.root.manager.loggerDict if name.startswith(f"{_OURS}."))
    return [_OURS, *sorted(below)]


def _level(change: ConfigChange, known: frozenset[str]) -> int:
    if change.name not in known:
        raise InvalidConfig(f"{change.name}: there is no such logger")
    if change.op is ConfigOp.DELETE:
        if change.name == _OURS:
            raise InvalidRequest(f"{_OURS}: the level above all others cannot be taken away")
        return logging.NOTSET
    if change.op is not ConfigOp.SET:
        raise InvalidRequest(f"{change.name}: a level can be set and deleted only")
    level = _LEVELS.get(str(change.value).strip().upper())
    if level is None:
        raise InvalidConfig(f"{change.name}: {change.value!r} is not one of {', '.join(_LEVELS)}")
    return level


def _entry(name: str) -> ConfigEntry:
    level = logging.getLogger(name).getEffectiveLevel()
    # The first word for a level: debug rather than trace.
    word = next((word for word, each in _LEVELS.items() if each == level), str(level))
    source = ConfigSource.BROKER_LOGGER
    return ConfigEntry(
        name=name,
        value=word,
        source=source,
        read_only=False,
        type=SettingType.STRING,
        doc="The least severe log lines that are written.",
        synonyms=(ConfigSynonym(name, word, source),),
    )
