"""Which requests on the HTTP port are for SQS; asked for every one of them."""

from typing import Final

from goqueue.doors.web.asgi import Scope
from goqueue.model.digits import number_in

# AWS has twelve; the region and account of a queue are kept in form only.
ACCOUNT_DIGITS_MAX: Final = 20
TARGET: Final = b"AmazonSQS."
_FORM: Final = b"application/x-www-form-urlencoded"


def is_for_sqs(scope: Scope) -> bool:
    if scope["method"] != "POST":
        return False
    path: str = scope["path"]
    for name, value in scope["headers"]:
        if name == b"x-amz-target":
            return bool(value.startswith(TARGET))
        if name == b"content-type" and value[: len(_FORM)].lower() == _FORM:
            return path == "/" or is_queue_path(path)
    return False


def is_presigned(scope: Scope) -> bool:
    """Whether a URL has all of a request in it. To be taken only where its signature is checked: a
    page of another site could have a browser get it."""
    if b"X-Amz-Signature=" not in scope["query_string"]:
        return False
    path: str = scope["path"]
    return scope["method"] in ("GET", "POST") and (path == "/" or is_queue_path(path))


def is_queue_path(path: str) -> bool:
    _, _, rest = path.partition("/")
    account, _, name = rest.partition("/")
    return number_in(account, ACCOUNT_DIGITS_MAX) is not None and bool(name) and "/" not in name
