"""What is run, in this order, and how it must end on every broker.

`{at}` are the brokers' addresses, `{node}` is the number of one, `{nodes}` are those of all,
`{folder}` is where the files are that commands read. Where `{at}` is not said, the command gets it
as `--bootstrap-server`, first.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop.kafka_bin.commands import Commands, Ended


@dataclass(frozen=True, slots=True)
class Step:
    """`shows`: a pattern that stands for all that is printed, where that has figures, or is the
    broker's own. `differs`: why GoQueue does not end like Apache Kafka."""

    command: str
    code: int = 0
    stdin: str = ""
    shows: str = ""
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """The brokers that commands are run against."""

    at: str
    folder: Path
    nodes: Sequence[int] = (1,)

    def begin(self, commands: Commands, command: str, stdin: str = "") -> None:
        commands.begin(*self.words(command), stdin)

    def words(self, command: str) -> tuple[str, list[str]]:
        name, *words = shlex.split(
            command.format(
                at=self.at,
                node=self.nodes[0],
                nodes=",".join(map(str, self.nodes)),
                folder=self.folder,
            )
        )
        return name, words if "{at}" in command else ["--bootstrap-server", self.at, *words]

    def run(self, commands: Commands, command: str, stdin: str = "") -> Ended:
        self.begin(commands, command, stdin)
        return commands.ended()

    def write_files(self) -> None:
        for name, content in _FILES.items():
            (self.folder / name).write_text(json.dumps({"version": 1, **content}))
        (self.folder / "empty.properties").touch()


_FILES: Final[dict[str, dict[str, list[dict[str, object]]]]] = {
    "delete.json": {"partitions": [{"topic": "orders", "partition": 0, "offset": -1}]},
    "beyond.json": {"partitions": [{"topic": "orders", "partition": 0, "offset": 99_999}]},
    "move.json": {"topics": [{"topic": "orders"}]},
}

_OWN_LEVELS: Final = "levels are those of the program, and there is no KRaft"
_PASSWORD: Final = "SCRAM-SHA-512=[iterations=8192,password=pw]"
_OWN_SETTINGS: Final = "has settings of its own"

CLUSTER: Final = (
    Step("kafka-cluster cluster-id --bootstrap-server {at}"),
    Step("kafka-cluster list-endpoints --bootstrap-server {at}", shows=r"127.0.0.1 .* unfenced"),
    Step(
        "kafka-cluster list-endpoints --include-fenced-brokers --bootstrap-server {at}",
        shows=r"127.0.0.1 .* unfenced +broker",
    ),
    Step("kafka-cluster list-endpoints --bootstrap-controller {at}", code=1),
    Step("kafka-cluster unregister --id 77 --bootstrap-server {at}", code=1),
    Step("kafka-broker-api-versions", shows=r"DescribeTopicPartitions\(75\): 0 \[usable: 0\]"),
    Step("kafka-features describe", shows=r"transaction.version.*FinalizedVersionLevel: 2"),
    Step("kafka-features upgrade --feature group.version=1"),
    Step("kafka-features upgrade --feature no.version=1", code=1, shows="Could not upgrade"),
    Step(
        "kafka-features downgrade --feature transaction.version=1 --dry-run",
        code=1,
        shows="at level 2 and cannot be changed",
        differs=_OWN_LEVELS,
    ),
    Step(
        "kafka-features upgrade --release-version 4.3-IV0",
        code=1,
        shows="there is no feature",
        differs=_OWN_LEVELS,
    ),
    Step("kafka-features version-mapping"),
    Step("kafka-metadata-quorum describe --status", shows=r"LeaderId: +\d+\n"),
    Step("kafka-metadata-quorum describe --replication", shows=r"\b1 .*(Leader|Follower)"),
    Step(
        "kafka-metadata-quorum remove-controller --controller-id 9"
        " --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ",
        code=1,
        shows="UnsupportedVersionException",
        differs="the metadata are in etcd, which has members of its own",
    ),
)

TOPICS: Final = (
    Step("kafka-topics --list"),
    Step("kafka-topics --create --topic orders --partitions 3"),
    Step("kafka-topics --create --topic orders --partitions 3", code=1),
    Step("kafka-topics --create --topic orders --if-not-exists"),
    Step("kafka-topics --create --topic odd --config retention.ms=soon", code=1),
    Step("kafka-topics --create --topic odd --config no.such=1", code=1),
    Step("kafka-topics --create --topic bad/name", code=1),
    Step("kafka-topics --create --topic many --replication-factor 9", code=1),
    Step("kafka-topics --create --topic placed --replica-assignment {node},{node}"),
    Step("kafka-topics --create --topic grown --partitions 3"),
    Step("kafka-topics --create --topic tiny --partitions 1 --config cleanup.policy=compact"),
    # Apache Kafka tells `min.insync.replicas=1` of every topic where it has eligible leaders.
    Step("kafka-topics --describe", shows="Topic: orders\tTopicId: .*\tPartitionCount: 3"),
    Step("kafka-topics --describe --topic tiny", shows="Configs: .*cleanup.policy=compact"),
    Step("kafka-topics --describe --topics-with-overrides", shows="Topic: tiny"),
    Step("kafka-topics --describe --topic nosuch", code=1),
    Step("kafka-topics --describe --topic nosuch --if-exists"),
    Step("kafka-topics --describe --under-replicated-partitions"),
    Step("kafka-topics --describe --unavailable-partitions"),
    Step("kafka-topics --describe --under-min-isr-partitions"),
    Step("kafka-topics --describe --at-min-isr-partitions"),
    # Not at once: Apache Kafka may not list yet what its controller has made.
    Step("kafka-topics --list --exclude-internal"),
    Step("kafka-topics --list --topic ti.*"),
    Step("kafka-topics --alter --topic grown --partitions 6"),
    Step("kafka-topics --alter --topic grown --partitions 6", code=1),
    Step("kafka-topics --alter --topic grown --partitions 4", code=1),
    Step("kafka-topics --alter --topic nosuch --partitions 4", code=1),
    Step("kafka-topics --alter --topic nosuch --partitions 4 --if-exists"),
    Step("kafka-topics --delete --topic placed"),
    Step("kafka-topics --delete --topic nosuch", code=1),
    Step("kafka-topics --delete --topic nosuch --if-exists"),
)

_KEYED: Final = "--reader-property parse.key=true --reader-property key.separator=:"
MESSAGES: Final = (
    Step(f"kafka-console-producer --topic orders {_KEYED}", stdin="k1:one\nk2:two\nk3:three\n"),
    Step(
        f"kafka-console-producer --topic orders --sync --compression-codec zstd {_KEYED}",
        stdin="k4:four\nk5:five\n",
    ),
    Step(
        "kafka-console-consumer --topic orders --group readers --from-beginning --max-messages 5"
        " --timeout-ms 60000 --formatter-property print.key=true"
    ),
    Step(
        "kafka-console-consumer --topic orders --group modern --from-beginning --max-messages 5"
        " --timeout-ms 60000 --command-property group.protocol=consumer"
    ),
    Step(
        "kafka-console-consumer --include ord.* --from-beginning --max-messages 5"
        " --timeout-ms 60000 --isolation-level read_committed"
        " --formatter-property print.offset=true --formatter-property print.partition=true"
        " --formatter-property print.timestamp=true --formatter-property print.headers=true"
    ),
    Step("kafka-console-consumer --topic orders --partition 0 --offset 0 --timeout-ms 2000"),
    Step("kafka-get-offsets --topic orders"),
    Step("kafka-get-offsets --topic-partitions orders:0-2 --time earliest"),
    Step("kafka-get-offsets --topic orders --time max-timestamp"),
    Step("kafka-get-offsets --topic orders --time 0"),
    Step("kafka-get-offsets --topic orders --time earliest-local"),
    Step("kafka-get-offsets --topic orders --time latest-tiered"),
    Step("kafka-get-offsets --exclude-internal-topics"),
    Step("kafka-get-offsets --topic nosuch", code=1),
    Step(
        "kafka-producer-perf-test --topic perf --num-records 2000 --record-size 100"
        " --throughput -1",
        shows="2000 records sent, ",
    ),
    Step("kafka-consumer-perf-test --topic perf --num-records 2000", shows=", 2000, "),
    Step(
        "kafka-e2e-latency --topic latency --num-records 50 --producer-acks all --record-size 64",
        shows="Percentiles: 50th = ",
    ),
)

GROUPS: Final = (
    Step("kafka-consumer-groups --list", shows="modern"),
    Step("kafka-consumer-groups --list --state Empty", shows=r"readers +Empty"),
    Step("kafka-consumer-groups --list --type", shows=r"modern +Consumer"),
    Step("kafka-consumer-groups --list --type consumer"),
    Step("kafka-consumer-groups --describe --group readers"),
    Step("kafka-consumer-groups --describe --group readers --verbose"),
    Step("kafka-consumer-groups --describe --group modern --offsets"),
    Step("kafka-consumer-groups --describe --group readers --members --verbose"),
    Step("kafka-consumer-groups --describe --group readers --state"),
    Step("kafka-consumer-groups --describe --all-groups --state", shows=r"readers .* Empty "),
    Step("kafka-consumer-groups --describe --group nosuch"),
    Step("kafka-consumer-groups --reset-offsets --group readers --topic orders --to-earliest"),
    Step(
        "kafka-consumer-groups --reset-offsets --group readers --topic orders --to-earliest"
        " --execute"
    ),
    Step("kafka-consumer-groups --reset-offsets --group modern --all-topics --to-latest --execute"),
    Step(
        "kafka-consumer-groups --reset-offsets --group readers --topic orders:0,1 --shift-by 1"
        " --execute"
    ),
    Step(
        "kafka-consumer-groups --reset-offsets --group readers --topic orders"
        " --to-datetime 2020-01-01T00:00:00.000 --execute"
    ),
    Step(
        "kafka-consumer-groups --reset-offsets --group readers --topic orders --by-duration PT1H"
        " --dry-run"
    ),
    Step(
        "kafka-consumer-groups --reset-offsets --group readers --topic orders --to-current"
        " --export --dry-run"
    ),
    Step(
        "kafka-consumer-groups --reset-offsets --group fresh --topic orders --to-offset 1 --execute"
    ),
    Step(
        "kafka-consumer-groups --reset-offsets --group fresh --topic nosuch --to-offset 1 --execute"
    ),
    Step("kafka-consumer-groups --delete-offsets --group fresh --topic nosuch"),
    Step("kafka-consumer-groups --delete-offsets --group fresh --topic orders:1"),
    Step("kafka-consumer-groups --delete-offsets --group nosuch --topic orders"),
    Step("kafka-consumer-groups --delete --group fresh"),
    Step("kafka-consumer-groups --delete --group nosuch"),
    Step("kafka-groups --list", shows=r"modern +Consumer +consumer"),
    Step("kafka-groups --list --group-type classic", shows=r"readers +Classic +consumer"),
    Step("kafka-groups --list --consumer", shows=r"readers +Classic"),
    Step("kafka-groups --list --share"),
    Step("kafka-groups --list --streams"),
    Step("kafka-streams-groups --list"),
    Step("kafka-streams-groups --list --state"),
    Step("kafka-streams-groups --describe --group nosuch", code=1),
    Step("kafka-streams-groups --delete --group nosuch"),
    Step(
        "kafka-streams-application-reset --application-id readers --input-topics orders"
        " --to-earliest"
    ),
)

_ALTER: Final = "kafka-configs --alter --entity-type"
_DESCRIBE: Final = "kafka-configs --describe --entity-type"
CONFIGS: Final = (
    Step(f"{_DESCRIBE} topics --entity-name orders"),
    Step(
        f"{_ALTER} topics --entity-name orders"
        " --add-config max.message.bytes=86400,cleanup.policy=[compact,delete]"
    ),
    Step(f"{_DESCRIBE} topics --entity-name orders"),
    Step(
        f"{_DESCRIBE} topics --entity-name orders --all",
        shows=r"max.message.bytes=86400 .*DYNAMIC_TOPIC_CONFIG:max.message.bytes=86400",
    ),
    Step(f"{_ALTER} topics --entity-name orders --delete-config max.message.bytes,cleanup.policy"),
    Step(f"{_ALTER} topics --entity-name orders --add-config no.such=1", code=1),
    Step(f"{_ALTER} topics --entity-name orders --add-config retention.ms=soon", code=1),
    Step(f"{_ALTER} topics --entity-name nosuch --add-config retention.ms=1000", code=1),
    Step(f"{_ALTER} brokers --entity-name {{node}} --add-config log.retention.ms=90000000"),
    Step(f"{_ALTER} brokers --entity-default --add-config log.cleaner.backoff.ms=16000"),
    Step(
        f"{_DESCRIBE} brokers --entity-name {{node}}",
        shows=r"DYNAMIC_BROKER_CONFIG:log.retention.ms=90000000",
    ),
    Step(
        f"{_DESCRIBE} brokers --entity-default",
        shows=r"DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.backoff.ms=16000",
    ),
    Step(f"{_DESCRIBE} brokers --entity-name {{node}} --all", shows=r"broker.id=1 "),
    Step(f"{_ALTER} brokers --entity-name {{node}} --delete-config log.retention.ms"),
    Step(f"{_ALTER} brokers --entity-default --delete-config log.cleaner.backoff.ms"),
    Step(f"{_ALTER} brokers --entity-name {{node}} --add-config listeners=PLAINTEXT://:1", code=1),
    Step(
        f"{_DESCRIBE} broker-loggers --entity-name {{node}}",
        shows="goqueue.broker=INFO",
        differs=_OWN_SETTINGS,
    ),
    Step(f"{_ALTER} groups --entity-name readers --add-config consumer.session.timeout.ms=50000"),
    Step(f"{_DESCRIBE} groups --entity-name readers"),
    Step(
        f"{_ALTER} groups --entity-name readers --add-config consumer.session.timeout.ms=9000",
        differs="sets no bounds to what groups choose (`group.consumer.min.session.timeout.ms`)",
        shows="Completed updating",
    ),
    Step(f"{_ALTER} groups --entity-name readers --delete-config consumer.session.timeout.ms"),
    Step(f"{_ALTER} client-metrics --entity-name all --add-config interval.ms=30000"),
    Step(f"{_ALTER} clients --entity-name loader --add-config producer_byte_rate=1048576"),
    Step(f"{_DESCRIBE} clients", shows="producer_byte_rate=1048576"),
    Step(f"{_ALTER} clients --entity-default --add-config request_percentage=12.5"),
    Step(f"{_ALTER} clients --entity-name loader --add-config no_such_rate=1", code=1),
    Step(f"{_ALTER} ips --entity-name 10.1.2.3 --add-config connection_creation_rate=20"),
    Step(f"{_DESCRIBE} ips", shows="connection_creation_rate=20"),
    Step(f"{_ALTER} clients --entity-name loader --delete-config producer_byte_rate"),
    Step(f"{_ALTER} clients --entity-default --delete-config request_percentage"),
    Step(f"{_ALTER} ips --entity-name 10.1.2.3 --delete-config connection_creation_rate"),
    Step(f"{_ALTER} users --entity-name alice --add-config consumer_byte_rate=2097152"),
    Step(f"{_ALTER} users --entity-default --add-config producer_byte_rate=1048576"),
    Step(f"{_DESCRIBE} users --entity-name alice", shows="consumer_byte_rate=2097152"),
    Step(f"{_ALTER} users --entity-name alice --delete-config consumer_byte_rate"),
    Step(f"{_ALTER} users --entity-default --delete-config producer_byte_rate"),
    Step(f"{_ALTER} users --entity-name dave --add-config {_PASSWORD}"),
    Step(f"{_DESCRIBE} users --entity-name dave", shows="SCRAM-SHA-512=iterations=8192"),
    Step(f"{_ALTER} users --entity-name dave --delete-config SCRAM-SHA-512"),
    Step(f"{_ALTER} users --entity-name nosuch --delete-config SCRAM-SHA-512", code=1),
    Step(f"{_DESCRIBE} users"),
    Step("kafka-client-metrics --list"),
    Step(
        "kafka-client-metrics --alter --name some --metrics org.apache.kafka.producer."
        " --interval 60000 --match client_software_name=apache-kafka-java"
    ),
    Step("kafka-client-metrics --describe --name some", shows=r"interval.ms=60000"),
    Step("kafka-client-metrics --delete --name some"),
    Step("kafka-client-metrics --delete --name nosuch"),
    Step("kafka-client-metrics --alter --generate-name --interval 60000"),
    Step(f"{_DESCRIBE} client-metrics", shows="CLIENT_METRICS_CONFIG:interval.ms=30000"),
    Step("kafka-acls --list", code=1, shows="No Authorizer|SecurityDisabled"),
    Step(
        "kafka-delegation-tokens --describe --owner-principal User:a"
        " --command-config {folder}/empty.properties",
        code=1,
        shows="not allowed",
    ),
)

PARTITIONS: Final = (
    Step("kafka-delete-records --offset-json-file {folder}/delete.json"),
    Step("kafka-delete-records --offset-json-file {folder}/beyond.json"),
    Step("kafka-leader-election --election-type preferred --all-topic-partitions"),
    Step("kafka-leader-election --election-type preferred --topic orders --partition 0"),
    Step("kafka-leader-election --election-type unclean --topic orders --partition 0"),
    Step("kafka-leader-election --election-type preferred --topic nosuch --partition 0", code=1),
    Step("kafka-log-dirs --describe --topic-list orders", shows='"partition":"orders-0","size":'),
    Step("kafka-log-dirs --describe --broker-list {node}", shows='"broker":1,"logDirs":'),
    Step("kafka-log-dirs --describe --broker-list 77", code=1),
    Step("kafka-reassign-partitions --list"),
    Step(
        "kafka-reassign-partitions --generate --topics-to-move-json-file {folder}/move.json"
        " --broker-list {nodes}",
        shows=r'Proposed(?s:.*)"topic":"orders","partition":0,"replicas":\[',
    ),
)

TRANSACTIONS: Final = (
    Step(
        "kafka-producer-perf-test --topic perf --num-records 2000 --record-size 100"
        " --throughput -1 --transactional-id perf --transaction-duration-ms 200",
        shows="2000 records sent, ",
    ),
    Step("kafka-transactions list", shows=r"perf\s+\d"),
    Step("kafka-transactions describe --transactional-id perf", shows="(Complete|Prepare)Commit"),
    Step("kafka-transactions describe --transactional-id nosuch", code=1),
    Step("kafka-transactions describe-producers --topic orders --partition 0", shows="ProducerId"),
    Step("kafka-transactions find-hanging --broker-id {node}"),
    Step("kafka-transactions abort --topic orders --partition 0 --start-offset 0", code=1),
    Step("kafka-transactions forceTerminateTransaction --transactionalId perf"),
)

SHARE_GROUPS: Final = (
    Step(f"{_ALTER} groups --entity-name sharers --add-config share.auto.offset.reset=earliest"),
    Step(
        "kafka-console-share-consumer --topic tiny2 --group sharers --max-messages 2"
        " --timeout-ms 60000"
    ),
    Step("kafka-share-groups --list"),
    Step("kafka-share-groups --describe --group sharers --members"),
    Step("kafka-share-groups --describe --group sharers", shows=r"sharers +tiny2 +0 "),
    Step("kafka-share-groups --describe --group nosuch"),
    Step(
        "kafka-share-groups --reset-offsets --group sharers --topic tiny2 --to-earliest --execute"
    ),
    Step("kafka-share-groups --reset-offsets --group sharers --all-topics --to-latest --execute"),
    Step("kafka-share-groups --delete-offsets --group sharers --topic nosuch", shows="Error: "),
    Step("kafka-share-groups --delete-offsets --group sharers --topic tiny2"),
    Step("kafka-share-groups --delete --group sharers"),
    Step("kafka-share-groups --delete --group nosuch"),
    Step(f"{_ALTER} groups --entity-name fast --add-config share.auto.offset.reset=earliest"),
    Step(
        "kafka-share-consumer-perf-test --topic perf --group fast --num-records 1000"
        " --timeout 60000",
        shows=r", \d{4}, ",
    ),
)

STEPS: Final[Sequence[Step]] = (
    *CLUSTER,
    *TOPICS,
    *MESSAGES,
    *GROUPS,
    *CONFIGS,
    *PARTITIONS,
    *TRANSACTIONS,
    Step("kafka-console-producer --topic tiny2", stdin="one\ntwo\n"),
    *SHARE_GROUPS,
)


# They end with their process, or never; each is run until it shows what it is to show.
ALONE: Final = (
    Step("kafka-verifiable-producer --topic verified --max-messages 20", shows='"acked":20'),
    Step(
        "kafka-verifiable-consumer --topic verified --group-id verifiers --reset-policy earliest",
        shows=r'"count":20|"offset":20',
    ),
    Step(
        "kafka-verifiable-share-consumer --topic verified --group-id sharing"
        " --offset-reset-strategy earliest",
        shows='"offsets_acknowledged","count":20',
    ),
    Step(
        "kafka-replica-verification --broker-list {at} --max-wait-ms 500"
        " --report-interval-ms 500 --topics-include verified",
        shows="max lag is 0 for partition verified-0 at offset 20",
    ),
)


@dataclass(frozen=True, slots=True)
class Members:
    """A command that stays in a group while others ask for it, and ends with one message."""

    command: str
    groups: str
    asked: Sequence[Step]
    settings: str = "consumer.session.timeout.ms=45000"


MEMBERS: Final = (
    Members(
        "kafka-console-consumer --topic live-a --group live-a",
        "kafka-consumer-groups --group live-a",
        (
            Step("--describe"),
            Step("--describe --members --verbose"),
            Step("--describe --state"),
            Step("--reset-offsets --topic live-a --to-earliest --execute"),
            Step("--delete-offsets --topic live-a"),
            Step("--delete"),
        ),
    ),
    Members(
        "kafka-console-consumer --topic live-b --group live-b"
        " --command-property group.protocol=consumer",
        "kafka-consumer-groups --group live-b",
        (
            Step("--describe"),
            Step("--describe --members --verbose", shows=r"live-b +\S+ +/127.* 1 +\d+ +live-b:0 "),
            Step("--describe --state --verbose", shows=r"Stable +\d+ +\d+ +1"),
            Step("--delete-offsets --topic live-b"),
            Step("--delete"),
        ),
    ),
    Members(
        "kafka-console-share-consumer --topic live-c --group live-c",
        "kafka-share-groups --group live-c",
        (
            Step("--describe --members --verbose", shows="live-c:0|live-c .*0"),
            Step("--describe --state"),
            Step("--reset-offsets --topic live-c --to-earliest --execute", code=1),
            Step("--delete"),
        ),
        "share.auto.offset.reset=earliest",
    ),
)
