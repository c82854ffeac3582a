"""One file per operation: decode → broker → encode, no rules of its own beyond the protocol's.

To serve another operation, write its file with an `OPERATION` and add it to the table here; it is
then advertised, decoded and dispatched.
"""

from collections.abc import Mapping
from typing import Final

from goqueue.doors.kafka.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from goqueue.doors.kafka.operation import Operation

OPERATIONS: Final[Mapping[int, Operation]] = {
    module.OPERATION.api_key: module.OPERATION
    for module in (
        produce,
        fetch,
        list_offsets,
        metadata,
        api_versions,
        create_topics,
        delete_topics,
        delete_records,
        offset_for_leader_epoch,
        describe_configs,
        alter_configs,
        describe_log_dirs,
        create_partitions,
        incremental_alter_configs,
        describe_cluster,
        list_config_resources,
        describe_topic_partitions,
    )
}
