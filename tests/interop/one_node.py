"""Tests that say nothing of a cluster, with reasons: `--goqueue-cluster` leaves them out."""

from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Final

# A module -> why.
REASONS: Final[Mapping[str, str]] = {
    "test_any_broker.py": "runs some of the others like that",
    "test_cluster_*.py": "have clusters of their own",
    "test_backup*.py": "have servers and folders of their own",
    "test_cli_cluster.py": "is about a node of one, and has a cluster of its own",
    "test_kafka_bin.py": "has brokers of its own, one and three",
    "test_etcd_store.py": "is about etcd alone",
    "test_embedded.py": "is about the broker in a test's own process",
    "test_serve.py": "is about one process and its folder",
    "test_sqs_retries.py": "is about boto3 alone",
    "test_start.py": "is about what one process loads",
    "test_many_partitions.py": "is about the open files of one process",
    "test_workers.py": "starts workers of its own",
    "test_emptied_segments.py": "makes the folder of a node by hand",
}


def reason_of(nodeid: str) -> str | None:
    """`nodeid` as pytest has it."""
    module = nodeid.partition("::")[0].rpartition("/")[2]
    return next((why for name, why in REASONS.items() if fnmatch(module, name)), None)
