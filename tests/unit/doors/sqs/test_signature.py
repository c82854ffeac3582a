"""Signature Version 4 against the vectors that AWS publishes, and against what botocore signs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from goqueue.doors.sqs.errors import ErrorKind, SqsError
from goqueue.doors.sqs.signature import (
    EXPIRES_MAX_SECONDS,
    Claim,
    Request,
    check_signature,
    claim_in,
    parse_query,
    sign,
)
from goqueue.doors.sqs.signature import canonical_request as canonical

KEY_ID = "AKIDEXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
MOMENT = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
HOST = ("Host", "example.amazonaws.com")
DATE = ("X-Amz-Date", "20150830T123600Z")


def _request(method: str, target: str, headers: list[tuple[str, str]]) -> Request:
    path, _, query = target.encode().partition(b"?")
    lower = [(name.lower().encode(), value.encode()) for name, value in headers]
    return Request(method=method, path=path, query=parse_query(query), headers=lower)


# From the Signature Version 4 test suite of AWS: the request, and its signature.
VECTORS = {
    "get-vanilla": (
        "GET",
        "/",
        [HOST, DATE],
        b"",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "get-vanilla-query-order-key-case": (
        "GET",
        "/?Param2=value2&Param1=value1",
        [HOST, DATE],
        b"",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-vanilla-query-unreserved": (
        "GET",
        "/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz="
        "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        [HOST, DATE],
        b"",
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
    ),
    "get-utf8": (
        "GET",
        "/\u1234",
        [HOST, DATE],
        b"",
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
    ),
    "get-header-value-trim": (
        "GET",
        "/",
        [HOST, ("My-Header1", " value1"), ("My-Header2", ' "a   b   c"'), DATE],
        b"",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    "get-header-value-order": (
        "GET",
        "/",
        [
            HOST,
            ("My-Header1", "value4"),
            ("My-Header1", "value1"),
            ("My-Header1", "value3"),
            ("My-Header1", "value2"),
            DATE,
        ],
        b"",
        "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
    ),
    "post-vanilla": (
        "POST",
        "/",
        [HOST, DATE],
        b"",
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    "post-x-www-form-urlencoded": (
        "POST",
        "/",
        [("Content-Type", "application/x-www-form-urlencoded"), HOST, DATE],
        b"Param1=value1",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
    "normalize-path/get-relative": (
        "GET",
        "/example/..",
        [HOST, DATE],
        b"",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "normalize-path/get-slashes": (
        "GET",
        "//example//",
        [HOST, DATE],
        b"",
        "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
    ),
    "normalize-path/get-space": (
        "GET",
        "/example space/",
        [HOST, DATE],
        b"",
        "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_the_published_vectors(name: str) -> None:
    method, target, headers, body, expected = VECTORS[name]
    request = _request(method, target, headers)
    claim = Claim(
        key_id=KEY_ID,
        date="20150830",
        region="us-east-1",
        signed_headers=tuple(sorted({each.lower() for each, _ in headers})),
        signature=expected,
        moment=MOMENT,
        service="service",
    )
    assert sign(claim, canonical(claim, request, sha256(body).hexdigest()), SECRET) == expected


# --- botocore -----------------------------------------------------------------------------

WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
VALUES = st.lists(WORDS, max_size=4).map("   ".join)
NAMES = st.from_regex(r"x-[a-z0-9]{1,8}", fullmatch=True).filter(
    lambda name: not name.startswith("x-amz")
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
PARTS = st.lists(TEXTS.map(lambda text: quote(text, safe="")), max_size=4)


@st.composite
def requests(draw: st.DrawFn) -> AWSRequest:
    pairs = draw(st.lists(st.tuples(TEXTS.filter(bool), TEXTS), max_size=4))
    query = "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in pairs)
    url = f"http://broker.example:8080/{'/'.join(draw(PARTS))}" + (f"?{query}" if query else "")
    headers = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    kind = draw(
        st.sampled_from(["application/x-amz-json-1.0", "application/x-www-form-urlencoded"])
    )
    headers["Content-Type"] = kind
    if "json" in kind:
        headers["X-Amz-Target"] = "AmazonSQS.SendMessage"
    return AWSRequest(
        method=draw(st.sampled_from(["GET", "POST"])),
        url=url,
        headers=headers,
        data=draw(st.binary(max_size=50)),
    )


def _received(request: AWSRequest) -> Request:
    """As it comes in: with the Host that every client sends."""
    parts = urlsplit(request.url)
    headers = [(name, value) for name, value in request.headers.items()]
    if "Host" not in request.headers:
        headers.append(("Host", parts.netloc))
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    return _request(request.method, target, headers)


def _signed(request: AWSRequest, *, region: str = "eu-west-1") -> Request:
    SigV4Auth(Credentials(KEY_ID, SECRET), "sqs", region).add_auth(request)
    return _received(request)


def _now(request: Request) -> datetime:
    return claim_in(request, datetime.now(UTC)).moment


@given(requests())
def test_what_botocore_signs_is_taken_and_nothing_else(request: AWSRequest) -> None:
    body = request.data
    received = _signed(request)
    claim = claim_in(received, datetime.now(UTC))
    assert (claim.key_id, claim.region) == (KEY_ID, "eu-west-1")
    check_signature(claim, received, body, SECRET)
    others = [
        (received, body + b"x", SECRET),
        (received, body, SECRET + "x"),
        (replace(received, method="PUT"), body, SECRET),
        (replace(received, path=received.path + b"x"), body, SECRET),
        (replace(received, query=[*received.query, (b"a", b"b")]), body, SECRET),
        (replace(received, headers=_with_type(received, b"text/plain")), body, SECRET),
    ]
    for other, its_body, secret in others:
        with pytest.raises(SqsError) as refused:
            check_signature(claim, other, its_body, secret)
        assert refused.value.kind is ErrorKind.SIGNATURE_DOES_NOT_MATCH


def _with_type(request: Request, kind: bytes) -> list[tuple[bytes, bytes]]:
    return [(name, kind if name == b"content-type" else value) for name, value in request.headers]


@given(
    st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=4),
    st.sampled_from(["GET", "POST"]),
    st.integers(1, EXPIRES_MAX_SECONDS),
)
def test_what_botocore_presigns_is_taken_until_it_ends(
    fields: dict[str, str], method: str, seconds: int
) -> None:
    url = "http://broker.example:8080/000000000000/orders"
    request = AWSRequest(method=method, url=url, params={"Action": "SendMessage", **fields})
    SigV4QueryAuth(Credentials(KEY_ID, SECRET), "sqs", "eu-west-1", seconds).add_auth(request)
    received = _received(request)
    claim = claim_in(received, datetime.now(UTC))
    assert claim.expires == timedelta(seconds=seconds)
    check_signature(claim, received, b"", SECRET)
    claim_in(received, claim.moment + timedelta(seconds=seconds))
    with pytest.raises(SqsError) as refused:
        claim_in(received, claim.moment + timedelta(seconds=seconds + 1))
    assert refused.value.kind is ErrorKind.REQUEST_EXPIRED
    with pytest.raises(SqsError):
        check_signature(claim, received, b"x", SECRET)
    with pytest.raises(SqsError):
        check_signature(
            claim, replace(received, query=[*received.query, (b"a", b"b")]), b"", SECRET
        )


def _plain() -> Request:
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": "AmazonSQS.SendMessage",
    }
    return _signed(
        AWSRequest(method="POST", url="http://broker.example/", headers=headers, data=b"{}")
    )


def test_clocks_may_be_a_quarter_of_an_hour_apart() -> None:
    received = _plain()
    moment = _now(received)
    for minutes in (-15, 15):
        claim_in(received, moment + timedelta(minutes=minutes))
    for seconds in (-901, 901):
        with pytest.raises(SqsError) as refused:
            claim_in(received, moment + timedelta(seconds=seconds))
        assert refused.value.kind is ErrorKind.REQUEST_EXPIRED


@pytest.mark.parametrize(
    "date", ["Fri, 31 Dec 9999 23:59:59 -2300", "Mon, 01 Jan 0001 00:00:00 +2300", "yesterday"]
)
def test_a_date_that_is_no_time_here_is_refused(date: str) -> None:
    credential = f"{KEY_ID}/99991231/eu-west-1/sqs/aws4_request"
    authorization = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0"
    headers = [(b"authorization", authorization.encode()), (b"date", date.encode())]
    with pytest.raises(SqsError):
        claim_in(Request(method="POST", path=b"/", query=(), headers=headers), MOMENT)


def test_a_presigned_url_that_has_ended_says_how_long_it_was_good() -> None:
    request = AWSRequest(method="GET", url="http://broker.example/", params={"Action": "a"})
    SigV4QueryAuth(Credentials(KEY_ID, SECRET), "sqs", "r", EXPIRES_MAX_SECONDS).add_auth(request)
    with pytest.raises(SqsError, match=f"good for {EXPIRES_MAX_SECONDS} s"):
        claim_in(_received(request), datetime.now(UTC) + timedelta(days=8))


def _kind_of(received: Request) -> ErrorKind:
    with pytest.raises(SqsError) as refused:
        check_signature(claim_in(received, datetime.now(UTC)), received, b"{}", SECRET)
    return refused.value.kind


def _replaced(received: Request, old: bytes, new: bytes) -> Request:
    headers = [
        (name, value.replace(old, new) if name == b"authorization" else value)
        for name, value in received.headers
    ]
    return replace(received, headers=headers)


def test_what_is_not_signed_for_us() -> None:
    received = _plain()
    bare = [each for each in received.headers if each[0] != b"authorization"]
    assert _kind_of(replace(received, headers=bare)) is ErrorKind.MISSING_AUTHENTICATION_TOKEN
    basic = [*bare, (b"authorization", b"Basic YTpi")]
    assert _kind_of(replace(received, headers=basic)) is ErrorKind.MISSING_AUTHENTICATION_TOKEN
    wrong = ErrorKind.SIGNATURE_DOES_NOT_MATCH
    assert _kind_of(_replaced(received, b"/sqs/", b"/sns/")) is wrong
    assert _kind_of(_replaced(received, b"/eu-west-1/", b"/us-east-1/")) is wrong
    assert _kind_of(_replaced(received, b"Signature=", b"Signature=0")) is wrong
    incomplete = ErrorKind.INCOMPLETE_SIGNATURE
    assert _kind_of(_replaced(received, b"SignedHeaders=", b"Headers=")) is incomplete
    assert _kind_of(_replaced(received, b"SignedHeaders=content", b"SignedHeaders=z;content")) is (
        incomplete
    )
    assert _kind_of(_replaced(received, b"Credential=", b"Credential=a/")) is incomplete


def test_a_date_beyond_all_dates() -> None:
    """It is the year 10,000 in UTC."""
    dated = [each for each in _plain().headers if each[0] != b"x-amz-date"]
    dated.append((b"date", b"Fri, 31 Dec 9999 23:59:59 -2300"))
    assert _kind_of(replace(_plain(), headers=dated)) is ErrorKind.INCOMPLETE_SIGNATURE


def test_what_means_something_must_be_signed() -> None:
    received = _plain()
    for name in (b"host", b"x-amz-target", b"x-amz-date"):
        unsigned = _replaced(received, b";" + name, b"")
        assert _kind_of(unsigned) is ErrorKind.SIGNATURE_DOES_NOT_MATCH
    added = [*received.headers, (b"x-amz-content-sha256", b"UNSIGNED-PAYLOAD")]
    assert _kind_of(replace(received, headers=added)) is ErrorKind.SIGNATURE_DOES_NOT_MATCH


def test_a_body_must_be_signed() -> None:
    """UNSIGNED-PAYLOAD is for S3."""
    request = AWSRequest(
        method="POST",
        url="https://broker.example/",
        headers={"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"},
        data=b"{}",
    )
    request.context["payload_signing_enabled"] = False
    assert _kind_of(_signed(request)) is ErrorKind.SIGNATURE_DOES_NOT_MATCH


def test_keys_of_somebody_elses_sessions_are_refused() -> None:
    request = AWSRequest(method="POST", url="http://broker.example/", data=b"{}")
    SigV4Auth(Credentials(KEY_ID, SECRET, "token"), "sqs", "eu-west-1").add_auth(request)
    assert _kind_of(_received(request)) is ErrorKind.INVALID_CLIENT_TOKEN_ID


@given(st.binary(max_size=200), st.binary(max_size=100))
def test_whatever_is_claimed_is_an_error_of_sqs(authorization: bytes, query: bytes) -> None:
    request = Request(
        method="GET",
        path=b"/",
        query=parse_query(query),
        headers=[(b"authorization", b"AWS4-HMAC-SHA256 " + authorization)],
    )
    with pytest.raises(SqsError):
        claim_in(request, MOMENT)
