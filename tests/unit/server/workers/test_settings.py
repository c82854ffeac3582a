"""What each worker is told of the settings of all."""

from pathlib import Path

import pytest

from goqueue.model.broker_config import BrokerConfig, broker_config
from goqueue.model.errors import InvalidConfig
from goqueue.server.workers.settings import check_settings, worker_settings


def told(config: BrokerConfig, worker: int = 1) -> BrokerConfig:
    texts = worker_settings(config, worker, Path("data/worker-1"), kafka_port=9093, http_port=8080)
    return broker_config(texts)


def test_a_worker_has_all_settings_and_its_own_place() -> None:
    given = broker_config(
        {
            "workers": "2",
            "num.partitions": "7",
            "host": "0.0.0.0",
            "http.allowed.hosts": "a.example,b.example",
            "topic.retention.ms": "5000",
            "auto.create.topics.enable": "false",
        }
    )
    mine = told(given)
    assert (mine.node_id, mine.kafka_port, mine.http_port) == (1, 9093, 8080)
    assert mine.data_dir == Path("data/worker-1")
    assert mine.workers == 2
    assert mine.num_partitions == 7
    assert mine.http_allowed_hosts == ("a.example", "b.example")
    assert not mine.auto_create_topics_enable
    assert mine.topic_defaults == given.topic_defaults


def test_a_message_is_stored_once_on_one_machine() -> None:
    mine = told(broker_config({"workers": "3"}))
    assert mine.default_replication_factor == 1
    assert mine.topic_defaults.get("min.insync.replicas", 1) == 1


def test_a_worker_that_hangs_is_given_more_time_than_a_broker_of_a_cluster() -> None:
    assert told(broker_config({"workers": "2"})).broker_session_timeout_ms == 30_000
    chosen = broker_config({"workers": "2", "broker.session.timeout.ms": "5000"})
    assert told(chosen).broker_session_timeout_ms == 5_000


def test_advertised_ports_follow_each_other_as_well() -> None:
    given = broker_config({"workers": "2", "advertised.kafka.port": "19092"})
    assert told(given, 0).advertised_kafka_port == 19_092
    assert told(given, 1).advertised_kafka_port == 19_093


def test_a_cordon_of_the_folder_is_one_of_every_worker() -> None:
    given = broker_config({"workers": "2", "data.dir": "data", "cordoned.log.dirs": "data"})
    assert told(given).cordoned_log_dirs == ("*",)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("cluster", "etcd://127.0.0.1:2379", "workers: a broker of a cluster is one process"),
        ("node.id", "3", "node.id: 3"),
    ],
)
def test_what_does_not_go_together_is_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        check_settings(broker_config({"workers": "2", name: value}))
