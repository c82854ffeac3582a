"""Tests that say nothing of a cluster, with reasons: `--goqueue-cluster` leaves them out."""

from collections.abc import Mapping
from typing import Final

# A module, or a test of it -> why.
REASONS: Final[Mapping[str, str]] = {
    "test_any_broker.py": "runs some of the others like that",
    "test_cli_cluster.py": "is about a node of one, and has a cluster of its own",
    "test_cluster_coordinators.py": "has a cluster of its own",
    "test_cluster_for_tests.py": "has a cluster of its own",
    "test_cluster_http.py": "has a cluster of its own",
    "test_cluster_lists.py": "has a cluster of its own",
    "test_cluster_membership.py": "has a cluster of its own",
    "test_cluster_registry.py": "has a cluster of its own",
    "test_cluster_seclusion.py": "has a cluster of its own",
    "test_etcd_store.py": "is about etcd alone",
    "test_embedded.py": "is about the broker in a test's own process",
    "test_serve.py": "is about one process and its folder",
    "test_sqs_retries.py": "is about boto3 alone",
    "test_start.py": "is about what one process loads",
    "test_many_partitions.py": "is about the open files of one process",
    "test_emptied_segments.py": "makes the folder of a node by hand",
}


def reason_of(nodeid: str) -> str | None:
    """`nodeid` as pytest has it."""
    path, _, test = nodeid.partition("::")
    module = path.rpartition("/")[2]
    return REASONS.get(module) or REASONS.get(f"{module}::{test.partition('[')[0]}")
