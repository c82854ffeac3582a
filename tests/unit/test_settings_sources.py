"""Where a broker's settings come from, and what is said when they are wrong."""

from pathlib import Path

import pytest

from goqueue.model.broker_config import BROKER_SETTINGS
from goqueue.model.errors import InvalidConfig
from goqueue.server.setting_sources import (
    all_setting_names,
    find_setting,
    load_broker_config,
    read_environment,
    settings_from_keywords,
    variable_name,
)


def config_file(folder: Path, text: str) -> Path:
    path = folder / "goqueue.toml"
    path.write_text(text)
    return path


def test_nothing_given_means_defaults() -> None:
    config = load_broker_config()
    assert (config.host, config.kafka_port, config.http_port) == ("127.0.0.1", 9092, 8080)


def test_later_sources_win(tmp_path: Path) -> None:
    path = config_file(
        tmp_path, 'kafka.port = 1\nhttp.port = 1\nnum.partitions = 1\nhost = "from-file"\n'
    )
    config = load_broker_config(
        config_file=path,
        environment={"GOQUEUE_HTTP_PORT": "2", "GOQUEUE_NUM_PARTITIONS": "2"},
        options={"num.partitions": "3"},
    )
    assert config.host == "from-file"
    assert (config.kafka_port, config.http_port, config.num_partitions) == (1, 2, 3)


def test_settings_that_say_nothing_any_more_are_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What an earlier release took must not keep this one from starting."""
    path = config_file(tmp_path, "queue.state.num.partitions = 4\nnum.partitions = 7\n")
    config = load_broker_config(
        config_file=path,
        environment={"GOQUEUE_DELAYED_TOPIC_NUM_PARTITIONS": "2"},
        options={"delayed.topic.num.partitions": "8"},
    )
    assert config.num_partitions == 7
    told = [record.getMessage() for record in caplog.records]
    assert [text.partition(" does nothing any more")[0] for text in told] == [
        f"config file {path}: queue.state.num.partitions",
        "variable GOQUEUE_DELAYED_TOPIC_NUM_PARTITIONS: delayed.topic.num.partitions",
        "command line: delayed.topic.num.partitions",
    ]
    assert all("beside each topic" in text for text in told)


def test_durations_and_sizes_have_units(tmp_path: Path) -> None:
    path = config_file(tmp_path, 'topic.retention.ms = "7d"\nfetch.max.bytes = "2MiB"\n')
    config = load_broker_config(
        config_file=path, environment={"GOQUEUE_CONNECTIONS_MAX_IDLE_MS": "1h30m"}
    )
    assert config.topic_defaults["retention.ms"] == 604_800_000
    assert (config.fetch_max_bytes, config.connections_max_idle_ms) == (2_097_152, 5_400_000)
    with pytest.raises(InvalidConfig, match="below the minimum"):
        load_broker_config(options={"connections.max.idle.ms": "5ms"})


def test_file_named_by_the_environment(tmp_path: Path) -> None:
    path = config_file(tmp_path, "num.partitions = 7\n")
    config = load_broker_config(environment={"GOQUEUE_CONFIG": str(path)})
    assert config.num_partitions == 7


@pytest.mark.parametrize(
    "text",
    [
        '"topic.retention.ms" = 5\n"auto.create.topics.enable" = false\n',
        "topic.retention.ms = 5\nauto.create.topics.enable = false\n",
        "[topic]\nretention.ms = 5\n[auto.create.topics]\nenable = false\n",
        '[topic]\n"retention.ms" = 5\n["auto.create.topics"]\nenable = false\n',
    ],
)
def test_names_in_a_file_are_flat_or_nested(tmp_path: Path, text: str) -> None:
    config = load_broker_config(config_file=config_file(tmp_path, text))
    assert config.topic_defaults == {"retention.ms": 5}
    assert config.auto_create_topics_enable is False


def test_lists_in_a_file(tmp_path: Path) -> None:
    path = config_file(tmp_path, 'topic.cleanup.policy = ["compact", "delete"]\n')
    config = load_broker_config(config_file=path)
    assert config.topic_defaults == {"cleanup.policy": ("compact", "delete")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"User:alice"', ("User:alice",)),
        ('"User:CN=ann,O=shop; User:root"', ("User:CN=ann,O=shop", "User:root")),
        ('["User:CN=ann,O=shop", "User:root"]', ("User:CN=ann,O=shop", "User:root")),
        ('""', ()),
    ],
)
def test_super_users_are_not_cut_at_the_commas_of_their_names(
    tmp_path: Path, text: str, expected: tuple[str, ...]
) -> None:
    config = load_broker_config(config_file=config_file(tmp_path, f"super.users = {text}\n"))
    assert config.super_users == expected
    again = BROKER_SETTINGS["super.users"].format(config.super_users)
    assert load_broker_config(options={"super.users": again}).super_users == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"User:alice,User:bob"', "semicolons"),
        ('"User:CN=x, User:admin"', "semicolons"),
        ('["User:alice,User:bob"]', "semicolons"),
        ('["User:alice;User:bob"]', "none of its items"),
        ('"alice;bob"', "'alice' must be User: and a name"),
        ('"User:;User:bob"', "'User:' must be User: and a name"),
    ],
)
def test_super_users_that_may_mean_somebody_else_are_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(InvalidConfig, match=f"super.users: .*{reason}"):
        load_broker_config(config_file=config_file(tmp_path, f"super.users = {text}\n"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "kafka.prt = 1\n",
            r"goqueue\.toml: kafka\.prt: no such setting; did you mean kafka\.port",
        ),
        ("kafka.port = 70000\n", r"goqueue\.toml: kafka\.port: 70000 is above the maximum 65535"),
        ('kafka.port = "x"\n', r"kafka\.port: 'x' is not a valid int"),
        ("kafka.port = \n", r"goqueue\.toml: not valid TOML"),
        ('"kafka.port" = 1\nkafka.port = 2\n', "given twice"),
        ("topic.min.compaction.lag.ms = 9\ntopic.max.compaction.lag.ms = 8\n", "must not be above"),
    ],
)
def test_mistakes_in_a_file_name_file_and_key(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        load_broker_config(config_file=config_file(tmp_path, text))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"nowhere\.toml: No such file"):
        load_broker_config(config_file=tmp_path / "nowhere.toml")


@pytest.mark.parametrize("name", all_setting_names())
def test_every_setting_has_its_variable(name: str) -> None:
    setting = find_setting(name)
    assert setting is not None
    text = setting.format(setting.default)
    assert read_environment({variable_name(name): text}) == {name: text}


def test_unknown_variable_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(
        InvalidConfig, match="GOQUEUE_DATADIR: no such setting; did you mean GOQUEUE_DATA_DIR"
    ):
        load_broker_config(environment={"GOQUEUE_DATADIR": "x"})


def test_bad_value_names_its_variable() -> None:
    with pytest.raises(InvalidConfig, match=r"variable GOQUEUE_HTTP_PORT: http\.port: 'web'"):
        load_broker_config(environment={"GOQUEUE_HTTP_PORT": "web"})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("PATH", "x"),
        ("GOQUEUE_BOOTSTRAP", "127.0.0.1:9092"),
        ("GOQUEUE_OUTPUT", "json"),
        # What Kubernetes sets for services named goqueue, goqueue-kafka and goqueue-headless.
        ("GOQUEUE_SERVICE_HOST", "10.0.0.1"),
        ("GOQUEUE_SERVICE_PORT_KAFKA", "9092"),
        ("GOQUEUE_PORT", "tcp://10.0.0.1:9092"),
        ("GOQUEUE_PORT_9092_TCP_ADDR", "10.0.0.1"),
        ("GOQUEUE_KAFKA_PORT", "tcp://10.0.0.1:9092"),
        ("GOQUEUE_HEADLESS_SERVICE_PORT", "9092"),
    ],
)
def test_variables_that_are_no_settings_are_left_alone(variable: str, text: str) -> None:
    assert read_environment({variable: text}) == {}


def test_unknown_option_names_the_command_line() -> None:
    with pytest.raises(InvalidConfig, match=r"command line: num\.partition: .* num\.partitions"):
        load_broker_config(options={"num.partition": "1"})


def test_keywords_take_underscores() -> None:
    texts = settings_from_keywords(
        {"num_partitions": 1, "topic_retention_ms": 5, "auto_create_topics_enable": False}
    )
    assert texts == {
        "num.partitions": "1",
        "topic.retention.ms": "5",
        "auto.create.topics.enable": "false",
    }
    with pytest.raises(InvalidConfig, match=r"num_partition: .* did you mean num_partitions"):
        settings_from_keywords({"num_partition": 1})
