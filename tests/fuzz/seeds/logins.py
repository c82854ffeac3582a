"""What clients show to be let in, as the tests of each have it."""

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from goqueue.doors.sqs.signature import ALGORITHM, canonical_request, claim_in, sign
from tests.fuzz.targets.bearer_tokens import KEY_ID
from tests.fuzz.targets.sasl_messages import SERVER_NONCE
from tests.fuzz.targets.signed_requests import NOW, SECRET, read_request
from tests.jwt_issuer import AUDIENCE, ISSUER

_PROOF: Final = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
MESSAGES: Final = tuple(
    text.encode()
    for text in (
        "PLAIN\n\0alice\0secret",
        "PLAIN\nalice\0alice\0secret",
        "PLAIN\nbob\0alice\0secret",
        "OAUTHBEARER\nn,,\x01auth=Bearer abc.def.ghi\x01\x01",
        "OAUTHBEARER\nn,a=ali=2Cce,\x01host=x\x01port=9092\x01auth=bearer  a=\x01\x01",
        f"SCRAM-SHA-256\nn,,n=alice,r=rOprNG\nc=biws,r=rOprNG{SERVER_NONCE},p={_PROOF}",
        f"SCRAM-SHA-512\nn,a=alice,n=alice,r=r,tokenauth=true\nc=biws,r=r{SERVER_NONCE},p=AAAA",
        f"SCRAM-SHA-256\ny,,n=a=3Db=2C,r=r\nc=eSws,r=r{SERVER_NONCE},x=y,p={_PROOF}",
        "SCRAM-SHA-256\np=tls-unique,,n=alice,r=r",
    )
)


def tokens() -> Iterator[tuple[str, bytes]]:
    header = {"alg": "EdDSA", "typ": "JWT", "kid": KEY_ID}
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": 4_102_444_800}
    changes: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({}, {}),
        ({"kid": None}, {"exp": 1e400}),
        ({"kid": "two"}, {"nbf": 4_102_444_800}),
        ({"alg": "none"}, {"aud": [AUDIENCE, "other"]}),
        ({"alg": "HS256"}, {"iat": "yesterday"}),
        ({"crit": ["b64"], "b64": False}, {"sub": 7}),
        ({"jwk": {}}, {"exp": -1}),
    )
    for number, (in_header, in_claims) in enumerate(changes):
        parts = (json.dumps({**header, **in_header}), json.dumps({**claims, **in_claims}))
        yield f"signed-{number}", "\n".join(("SIGNED", *parts)).encode()
    yield "sent", b"SENT\neyJhbGciOiJFZERTQSIsImtpZCI6Im9uZSJ9.e30.AAAA"
    yield "sent", b"SENT\n..."
    yield "deep", b"SIGNED\n" + b"[" * 20_000
    yield "deep", b"\n".join((b"SIGNED", json.dumps(header).encode(), b'{"a":' * 4_000))


_SCOPE: Final = "AKIDEXAMPLE/20150830/us-east-1/sqs/aws4_request"
_ZEROS: Final = "0" * 64


def signed() -> Iterator[tuple[str, bytes]]:
    in_header = (
        "POST /000000000000/q\nHost:localhost\nX-Amz-Date:20150830T123600Z\n"
        "X-Amz-Target:AmazonSQS.SendMessage\nAuthorization:"
        f"{ALGORITHM} Credential={_SCOPE}, SignedHeaders=host;x-amz-date;x-amz-target, "
        f"Signature={_ZEROS}\n\n{{}}"
    )
    by_date = (
        "GET /a/../b//?Action=ListQueues\nHost:localhost\nDate:Sun, 30 Aug 2015 12:36:00 GMT\n"
        f"Authorization:{ALGORITHM} Credential={_SCOPE},SignedHeaders=date;host,Signature={_ZEROS}"
    )
    presigned = (
        "GET /?Action=ListQueues&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
        f"{_SCOPE.replace('/', '%2F')}&X-Amz-Date=20150830T123600Z&X-Amz-Expires=900"
        f"&X-Amz-SignedHeaders=host&X-Amz-Signature={_ZEROS}\nHost:localhost"
    )
    # Earlier than anything by a clock that is hours ahead.
    yield (
        "moment",
        by_date.replace("Sun, 30 Aug 2015", "Fri, 31 Dec 9999").replace("GMT", "-2300").encode(),
    )
    for label, text in (("header", in_header), ("date", by_date), ("presigned", presigned)):
        yield label, _with_signature(text).encode()


def _with_signature(text: str) -> str:
    request, body = read_request(text.encode())
    claim = claim_in(request, NOW)
    own = sign(claim, canonical_request(claim, request, sha256(body).hexdigest()), SECRET)
    return text.replace(_ZEROS, own)


def _policy(**changes: Any) -> bytes:
    statement = {
        "Sid": "one",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::000000000000:user/alice"},
        "Action": "SQS:SendMessage",
        "Resource": "arn:aws:sqs:us-east-1:000000000000:q",
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [{**statement, **changes}]}).encode()


POLICIES: Final = (
    _policy(),
    _policy(Effect="Deny", Principal="*", Action=["sqs:*", "SQS:GetQueueUrl"], Resource="*"),
    _policy(Principal={"AWS": ["bob", "arn:aws:iam::carol:root", "*"]}, Action="ReceiveMessage"),
    _policy(Condition={"StringEquals": {"a": "b"}}),
    _policy(Effect=["Allow"], Principal=[], Action={}),
    _policy(Principal={"AWS": "\ud800"}),
    _policy(Action="\ud800"),
    _policy(Principal={"AWS": "a" * 2_000}),
    b'{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "*"}}',
    b'{"Statement": 1}',
    b"[" * 5_000,
)
