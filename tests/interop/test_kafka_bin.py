"""Commands of Apache Kafka's `bin/`: they end on GoQueue as they do on Apache Kafka.

docs/kafka-tools.md tells users what comes of each.
"""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from bench.brokers.kafka import Kafka
from goqueue.testing import GoQueueCluster
from goqueue.testing.server_process import ServerProcess
from tests.interop.kafka_bin.commands import CLASSES, Commands, Ended, alone, class_path
from tests.interop.kafka_bin.sameness import comparable
from tests.interop.kafka_bin.scenario import ALONE, MEMBERS, STEPS, Members, Place, Step
from tests.interop.servers import Server

DOCS = Path(__file__).parents[2] / "docs" / "kafka-tools.md"
# As Apache Kafka has it: topics that are made by being used have one partition.
OPTIONS = ("--set", "num.partitions=1")
WAIT_SECONDS = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    kafka = Kafka()
    kafka.start(tmp_path_factory.mktemp("kafka"))
    yield Place(f"127.0.0.1:{kafka.port}", tmp_path_factory.mktemp("files"))
    kafka.stop()


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("data")
    with ServerProcess(folder, "--node-id", "1", *OPTIONS) as server:
        yield Place(server.bootstrap_servers, tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with GoQueueCluster(*OPTIONS, brokers=3) as cluster:
        yield Place(cluster.bootstrap_servers, tmp_path_factory.mktemp("files"), cluster.node_ids)


def all_ended(place: Place) -> list[Ended]:
    place.write_files()
    with closing(Commands(place.folder)) as commands:
        return [place.run(commands, step.command, step.stdin) for step in STEPS]


def faults_of(step: Step, ended: Ended) -> Iterator[str]:
    if ended.code != step.code:
        yield f"{step.command}: code {ended.code}\n{ended.output}"
    elif step.shows and not re.search(step.shows, ended.output):
        yield f"{step.command}: no {step.shows!r}\n{ended.output}"


def differences(step: Step, ours: Ended, kafkas: Ended) -> Iterator[str]:
    yield from faults_of(step, ours)
    if step.differs:
        return
    yield from (f"Apache Kafka: {fault}" for fault in faults_of(step, kafkas))
    if not step.shows and comparable(ours.output) != comparable(kafkas.output):
        yield f"{step.command}\n--- Apache Kafka\n{kafkas.output}\n--- GoQueue\n{ours.output}"


def ended_while_a_member_lives(place: Place, members: Members) -> list[Ended]:
    with closing(Commands(place.folder)) as commands, closing(Commands(place.folder)) as member:
        topic = members.command.split()[2]
        made = place.run(commands, f"kafka-topics --create --topic {topic} --partitions 1")
        assert made.code == 0, made.output
        group = members.command.split()[4]
        place.run(
            commands,
            f"kafka-configs --alter --entity-type groups --entity-name {group}"
            f" --add-config {members.settings}",
        )
        place.begin(member, f"{members.command} --max-messages 1 --timeout-ms 100000")
        limit = time.monotonic() + WAIT_SECONDS
        while "Stable" not in place.run(commands, f"{members.groups} --describe --state").output:
            assert time.monotonic() < limit, f"{members.command} has not joined"
        ended = [place.run(commands, f"{members.groups} {step.command}") for step in members.asked]
        place.run(commands, f"kafka-console-producer --topic {topic}", "last\n")
        return [*ended, member.ended()]


def test_one_broker_ends_them_as_apache_kafka_does(apache_kafka: Place, one_broker: Place) -> None:
    # Both would fetch the tools where they are not there yet.
    class_path()
    with ThreadPoolExecutor(2) as both:
        kafkas, ours = both.map(all_ended, (apache_kafka, one_broker))
    found = [
        difference
        for step, our, kafkas_own in zip(STEPS, ours, kafkas, strict=True)
        for difference in differences(step, our, kafkas_own)
    ]
    assert not found, "\n\n".join(found)


def test_three_brokers_end_them_with_the_same_codes(three_brokers: Place) -> None:
    endings = zip(STEPS, all_ended(three_brokers), strict=True)
    found = [fault for step, ended in endings for fault in faults_of(step, ended)]
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("members", MEMBERS, ids=lambda members: members.command.split()[4])
def test_groups_with_members_are_told_of_as_apache_kafka_does(
    apache_kafka: Place, one_broker: Place, members: Members
) -> None:
    # Both would fetch the tools where they are not there yet.
    class_path()
    with ThreadPoolExecutor(2) as both:
        kafkas, ours = both.map(
            lambda place: ended_while_a_member_lives(place, members), (apache_kafka, one_broker)
        )
    steps = [*members.asked, Step(members.command, shows="last")]
    found = [
        difference
        for step, our, kafkas_own in zip(steps, ours, kafkas, strict=True)
        for difference in differences(step, our, kafkas_own)
    ]
    assert not found, "\n\n".join(found)


def test_commands_that_end_with_their_process(one_broker: Place) -> None:
    for step in ALONE:
        with alone(*one_broker.words(step.command), one_broker.folder) as process:
            assert process.stdout is not None
            printed: list[str] = []
            for line in process.stdout:
                printed.append(line)
                if re.search(step.shows, line):
                    break
            else:
                pytest.fail(f"{step.command}\n{''.join(printed)}")


def test_segments_are_dumped(server: Server, bootstrap: str, topic: str, tmp_path: Path) -> None:
    place = Place(bootstrap, tmp_path)
    with closing(Commands(tmp_path)) as commands:
        place.run(commands, f"kafka-console-producer --topic {topic} --sync", "written here\n")
        files = ",".join(map(str, server.data_dir.rglob(f"{topic}-*/*.log")))
        commands.begin("kafka-dump-log", ["--files", files, "--print-data-log"])
        dumped = commands.ended()
    assert dumped.code == 0
    assert "payload: written here" in dumped.output


def test_the_page_tells_of_every_command() -> None:
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`([\w-]+)\.sh`", row)}
    assert told >= CLASSES.keys()
