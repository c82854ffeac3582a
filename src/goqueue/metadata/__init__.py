"""Where the cluster's own facts are kept: keys with revisions, transactions, watches, leases.

`MetadataStore` is the interface, with etcd's semantics; `LocalStore` is the embedded one for a
single node, a checksummed log with snapshots in the data directory.

A store owns its keys; everybody else sees copies that never change. A store belongs to one event
loop. `LocalStore` decides on the loop and writes in one worker thread of its own, so a directory
must have one `LocalStore` at a time (the lock on the data directory sees to that).
"""

from goqueue.metadata.local import LocalStore, LocalStoreLimits
from goqueue.metadata.store import (
    Compare,
    CompareOp,
    CompareTarget,
    Delete,
    DeletePrefix,
    Event,
    EventKind,
    Get,
    GetPrefix,
    KeyValue,
    LeaseId,
    MetadataStore,
    Put,
    Read,
    TxnResult,
    Watch,
    WatchBatch,
)

__all__ = [
    "Compare",
    "CompareOp",
    "CompareTarget",
    "Delete",
    "DeletePrefix",
    "Event",
    "EventKind",
    "Get",
    "GetPrefix",
    "KeyValue",
    "LeaseId",
    "LocalStore",
    "LocalStoreLimits",
    "MetadataStore",
    "Put",
    "Read",
    "TxnResult",
    "Watch",
    "WatchBatch",
]
