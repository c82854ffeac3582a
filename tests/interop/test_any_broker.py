"""One test of every feature at a broker that leads nothing; `make test-cluster` runs them all."""

import subprocess
import sys
from pathlib import Path

from tests.busy_machine import stretched

_FOLDER = Path(__file__).parent
PART = (
    "test_broker_settings.py::test_librdkafka_sets_and_takes_back",
    "test_client_metrics.py::test_a_producer_and_a_consumer_push",
    "test_cli.py::test_topic_from_creation_to_deletion",
    "test_cli_queues.py::test_a_message_is_taken_kept_and_given_back",
    "test_cli_queues.py::test_the_kafka_address_may_be_an_option",
    "test_groups_python_clients.py::test_kafka_python_admin_works_on_groups",
    "test_http_groups.py::test_cooperative_members_of_both_share_a_group",
    "test_http_groups.py::test_http_and_kafka_producers_fence_each_other",
    "test_http_with_kafka_clients.py::test_curl_reads_what_kafka_produced",
    "test_kafka_confluent.py::test_records_are_deleted",
    "test_schema_registry.py::test_versions_of_a_subject",
    "test_share_groups.py::test_released_messages_come_again_and_rejected_ones_do_not",
    "test_sqs_fifo.py::test_a_duplicate_is_taken_once",
    "test_sqs_messages.py::test_batches",
    "test_sqs_move_tasks.py::test_to_another_queue",
    "test_transactions_clients.py::test_kafka_python_transactions",
)


def test_a_part_of_the_suite_at_a_broker_that_leads_nothing() -> None:
    """In a process of its own, where all of them share one cluster."""
    command = [sys.executable, "-m", "pytest", "--goqueue-cluster", "-q", "-p", "no:cacheprovider"]
    command += [str(_FOLDER / test) for test in PART]
    done = subprocess.run(
        command,
        cwd=_FOLDER.parents[1],
        capture_output=True,
        text=True,
        timeout=stretched(240),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    assert f"{len(PART)} passed" in done.stdout
