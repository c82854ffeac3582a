"""From the settings of `goqueue serve` to those of each worker."""

from pathlib import Path
from typing import Final

from goqueue.model.broker_config import (
    BROKER_SETTINGS,
    TOPIC_DEFAULT_PREFIX,
    BrokerConfig,
)
from goqueue.model.cluster_config import CORDONED_LOG_DIRS
from goqueue.model.errors import InvalidConfig
from goqueue.model.settings import field_name
from goqueue.model.topic_config import TOPIC_SETTINGS
from goqueue.storage.data_directory import MASTER_KEY_FILE

_SESSION_TIMEOUT: Final = "broker.session.timeout.ms"
# The supervisor knows at once when a worker ends. Nobody could lead in place of one that only
# hangs, so it is given more time than a broker of a cluster.
_PATIENCE_MS: Final = "30000"


def check_settings(config: BrokerConfig) -> None:
    """Refuse what cannot be for several workers."""
    if config.cluster:
        raise InvalidConfig(
            "workers: a broker of a cluster is one process; start one for each core instead, with "
            "a --node-id, a --data-dir and ports of its own"
        )
    if config.node_id:
        raise InvalidConfig(
            f"node.id: {config.node_id} cannot be chosen with workers, which are numbered from 0"
        )


def master_key_file(config: BrokerConfig) -> Path:
    given = config.security_master_key_file
    return Path(given) if given else config.data_dir.absolute() / MASTER_KEY_FILE


def worker_settings(
    config: BrokerConfig, worker: int, data_dir: Path, *, kafka_port: int, http_port: int
) -> dict[str, str]:
    """Every setting as text, also those that have their defaults."""
    texts = {
        name: setting.format(getattr(config, field_name(name)))
        for name, setting in BROKER_SETTINGS.items()
    }
    for name, value in config.topic_defaults.items():
        texts[TOPIC_DEFAULT_PREFIX + name] = TOPIC_SETTINGS[name].format(value)
    texts["node.id"] = str(worker)
    texts["data.dir"] = str(data_dir)
    texts["kafka.port"] = str(kafka_port)
    texts["http.port"] = str(http_port)
    if config.security_enabled:
        # One for all of them: they log in to each other by it.
        texts["security.master.key.file"] = str(master_key_file(config))
    if config.advertised_kafka_port:
        texts["advertised.kafka.port"] = str(config.advertised_kafka_port + worker)
    if config.broker_session_timeout_ms == BROKER_SETTINGS[_SESSION_TIMEOUT].default:
        texts[_SESSION_TIMEOUT] = _PATIENCE_MS
    if config.cordoned_log_dirs:
        # The folder that it names is that of all workers.
        texts[CORDONED_LOG_DIRS] = "*"
    return texts
