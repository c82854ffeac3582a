"""The part of etcd's v3 API that is used here, as tables of fields; protobuf makes the classes.

Field names and numbers are those of etcd's `rpc.proto`, `kv.proto` and `auth.proto`.
"""

from typing import Any, Final

from goqueue.model.protobuf_messages import MessageTable, message_classes

_MESSAGES: Final[MessageTable] = {
    "ResponseHeader": {"revision": (3, "int64")},
    "KeyValue": {
        "key": (1, "bytes"),
        "create_revision": (2, "int64"),
        "mod_revision": (3, "int64"),
        "version": (4, "int64"),
        "value": (5, "bytes"),
        "lease": (6, "int64"),
    },
    "Event": {"type": (1, "int32"), "kv": (2, "KeyValue")},
    "RangeRequest": {
        "key": (1, "bytes"),
        "range_end": (2, "bytes"),
        "limit": (3, "int64"),
        "revision": (4, "int64"),
    },
    "RangeResponse": {
        "header": (1, "ResponseHeader"),
        "kvs": (2, "*KeyValue"),
        "more": (3, "bool"),
    },
    "PutRequest": {
        "key": (1, "bytes"),
        "value": (2, "bytes"),
        "lease": (3, "int64"),
        "prev_kv": (4, "bool"),
    },
    "PutResponse": {"header": (1, "ResponseHeader"), "prev_kv": (2, "KeyValue")},
    "DeleteRangeRequest": {
        "key": (1, "bytes"),
        "range_end": (2, "bytes"),
        "prev_kv": (3, "bool"),
    },
    "DeleteRangeResponse": {"header": (1, "ResponseHeader"), "prev_kvs": (3, "*KeyValue")},
    "RequestOp": {
        "request_range": (1, "?RangeRequest"),
        "request_put": (2, "?PutRequest"),
        "request_delete_range": (3, "?DeleteRangeRequest"),
    },
    "ResponseOp": {
        "response_range": (1, "?RangeResponse"),
        "response_put": (2, "?PutResponse"),
        "response_delete_range": (3, "?DeleteRangeResponse"),
    },
    "Compare": {
        "result": (1, "int32"),
        "target": (2, "int32"),
        "key": (3, "bytes"),
        "version": (4, "?int64"),
        "create_revision": (5, "?int64"),
        "mod_revision": (6, "?int64"),
        "value": (7, "?bytes"),
    },
    "TxnRequest": {
        "compare": (1, "*Compare"),
        "success": (2, "*RequestOp"),
        "failure": (3, "*RequestOp"),
    },
    "TxnResponse": {
        "header": (1, "ResponseHeader"),
        "succeeded": (2, "bool"),
        "responses": (3, "*ResponseOp"),
    },
    "WatchCreateRequest": {
        "key": (1, "bytes"),
        "range_end": (2, "bytes"),
        "start_revision": (3, "int64"),
        "progress_notify": (4, "bool"),
    },
    "WatchRequest": {"create_request": (1, "?WatchCreateRequest")},
    "WatchResponse": {
        "header": (1, "ResponseHeader"),
        "created": (3, "bool"),
        "canceled": (4, "bool"),
        "compact_revision": (5, "int64"),
        "cancel_reason": (6, "string"),
        "events": (11, "*Event"),
    },
    "LeaseGrantRequest": {"TTL": (1, "int64")},
    "LeaseGrantResponse": {
        "header": (1, "ResponseHeader"),
        "ID": (2, "int64"),
        "TTL": (3, "int64"),
        "error": (4, "string"),
    },
    "LeaseRevokeRequest": {"ID": (1, "int64")},
    "LeaseRevokeResponse": {"header": (1, "ResponseHeader")},
    "LeaseKeepAliveRequest": {"ID": (1, "int64")},
    "LeaseKeepAliveResponse": {
        "header": (1, "ResponseHeader"),
        "ID": (2, "int64"),
        "TTL": (3, "int64"),
    },
    "AuthenticateRequest": {"name": (1, "string"), "password": (2, "string")},
    "AuthenticateResponse": {"header": (1, "ResponseHeader"), "token": (2, "string")},
    "StatusRequest": {},
    "StatusResponse": {"header": (1, "ResponseHeader"), "version": (2, "string")},
}


_CLASSES: Final = message_classes("goqueue.etcd", _MESSAGES)


def __getattr__(name: str) -> Any:
    """The class of a message, by its name in etcd's API."""
    try:
        return _CLASSES[name]
    except KeyError:
        raise AttributeError(name) from None
