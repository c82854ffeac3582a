"""Queue URLs and ARNs. A queue is found by its name; account and region are kept in form only."""

import re
from typing import Final

from goqueue.doors.sqs.call import Call
from goqueue.doors.sqs.errors import ErrorKind, SqsError, missing, no_such_queue

ACCOUNT: Final = "000000000000"
DEFAULT_REGION: Final = "us-east-1"

# AWS4-HMAC-SHA256 Credential=<key>/<date>/<region>/sqs/aws4_request, …
_SCOPE: Final = re.compile(rb"Credential=[^/,]*/\d{8}/(?P<region>[a-z0-9-]{1,32})/")
_URL: Final = re.compile(r"(?:https?://[^/]+)?/(?P<account>\d{1,20})/(?P<name>[^/?#]{1,249})")
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_HOST_ONLY: Final = re.compile(r"https?://[^/?#]+")


def region_of(authorization: bytes) -> str:
    """The region that the caller signed for; signatures themselves are not checked."""
    found = _SCOPE.search(authorization)
    return found["region"].decode() if found else DEFAULT_REGION


def queue_arn(region: str, name: str) -> str:
    return f"arn:aws:sqs:{region}:{ACCOUNT}:{name}"


def queue_url(call: Call, name: str) -> str:
    return f"{call.scheme}://{call.host}/{ACCOUNT}/{name}"


def queue_name(url: str | None) -> str:
    """The queue that a request means by its QueueUrl; its bare name will do, as with AWS."""
    if not url:
        raise missing("QueueUrl")
    if _NAME.fullmatch(url):
        return url
    if _HOST_ONLY.fullmatch(url):
        raise no_such_queue()
    found = _URL.fullmatch(url)
    if found is None:
        raise SqsError(
            ErrorKind.INVALID_ADDRESS, f"The address {url} is not valid for this endpoint."
        )
    return found["name"]
