"""Requests with a signature of version 4, in a header or in the URL, held against a secret.

An input is a request as it stands on the wire: a line with method and target, headers, an empty
line, the body.
"""

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from goqueue.doors.sqs.errors import SqsError
from goqueue.doors.sqs.signature import (
    Claim,
    Request,
    canonical_request,
    check_signature,
    claim_in,
    parse_query,
    sign,
)
from tests.fuzz.target import Finding, Target, Verdict

SECRET: Final = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW: Final = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)


def run(data: bytes) -> Verdict:
    request, body = read_request(data)
    try:
        claim = claim_in(request, NOW)
    except SqsError as error:
        return error.kind, error.message
    _check_holder(claim, request, body)
    try:
        check_signature(claim, request, body, SECRET)
    except SqsError as error:
        return claim, error.kind
    return claim


def read_request(data: bytes) -> tuple[Request, bytes]:
    head, _, body = data.partition(b"\n\n")
    line, *lines = head.split(b"\n")
    method, _, target = line.partition(b" ")
    path, _, query = target.partition(b"?")
    headers = [
        (name.lower(), value.strip()) for name, _, value in (e.partition(b":") for e in lines)
    ]
    request = Request(
        method=method.decode("latin-1"), path=path, query=parse_query(query), headers=headers
    )
    return request, body


def _check_holder(claim: Claim, request: Request, body: bytes) -> None:
    """Whoever has the secret can sign this, and with that nothing else."""
    canonical = canonical_request(claim, request, sha256(body).hexdigest())
    own = replace(claim, signature=sign(claim, canonical, SECRET))
    try:
        check_signature(own, request, body, SECRET)
    except SqsError as error:
        # The hash of the body is of another one.
        if "x-amz-content-sha256" not in error.message:
            raise Finding(f"{own} is refused: {error.message}") from None
        return
    for other_body, secret in ((body + b"x", SECRET), (body, "other")):
        try:
            check_signature(own, request, other_body, secret)
        except SqsError:
            continue
        raise Finding(f"{own} is taken for another body or secret")


TARGET: Final = Target(
    name="signed_requests",
    promise="a signature is understood or refused with a code of SQS; only the holder's counts",
    run=run,
)
