"""Signature Version 4: who signed a request, and whether the signature is the holder's.

After "AWS Signature Version 4 for API requests" of the IAM user guide. Everything here is a
function of the request, the secret and the time. SDKs sign in headers; a presigned URL has all in
its query.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

from goqueue.doors.sqs.errors import ErrorKind, SqsError
from goqueue.doors.web.bodies import Headers

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SERVICE: Final = "sqs"
_TERMINATOR: Final = "aws4_request"
# How far the clocks of client and broker may be apart.
SKEW: Final = timedelta(minutes=15)
# A week: the longest that a presigned URL is good for.
EXPIRES_MAX_SECONDS: Final = 604_800
# SDKs sign about ten.
SIGNED_HEADERS_MAX: Final = 100
# What changes the meaning of a request to this door.
_MUST_BE_SIGNED: Final = frozenset({"host", "x-amz-target", "x-amz-date", "x-amz-content-sha256"})
_TOKEN: Final = "x-amz-security-token"
_CONTENT_HASH: Final = "x-amz-content-sha256"

_PARAMETER: Final = re.compile(r"\s*(Credential|SignedHeaders|Signature)=([^\s,]+)\s*")
_MOMENT: Final = "%Y%m%dT%H%M%SZ"
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")

Query = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it came: the path is not decoded; the query's names and values are."""

    method: str
    path: bytes
    query: Query
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a request says of its signature. `expires`: of a presigned one."""

    key_id: str
    date: str
    region: str
    signed_headers: tuple[str, ...]
    signature: str
    moment: datetime
    expires: timedelta | None = None
    service: str = SERVICE

    @property
    def scope(self) -> tuple[str, str, str, str]:
        return self.date, self.region, self.service, _TERMINATOR


def parse_query(text: bytes) -> Query:
    """A plus sign is itself: signatures are over RFC 3986's encoding, not over that of forms."""
    pairs = []
    for part in text.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            pairs.append((unquote_to_bytes(name), unquote_to_bytes(value)))
    return pairs


# --- what is claimed ----------------------------------------------------------------------


def claim_in(request: Request, now: datetime) -> Claim:
    """Before anything secret is looked at: of the right form, for us, and of this time."""
    if any(name == b"X-Amz-Algorithm" for name, _ in request.query):
        claim = _claim_in_query(request.query)
    else:
        claim = _claim_in_headers(request.headers)
    present = {name.decode("latin-1") for name, _ in request.headers}
    if _TOKEN in present or any(name.lower() == _TOKEN.encode() for name, _ in request.query):
        raise unknown_key()
    for name in sorted(_MUST_BE_SIGNED & {*present, "host"}):
        if name not in claim.signed_headers:
            raise _mismatch(f"'{name}' must be a signed header.")
    _check_time(claim, now)
    return claim


def _claim_in_headers(headers: Headers) -> Claim:
    found = {name: value.decode("latin-1") for name, value in headers}
    authorization = found.get(b"authorization", "")
    algorithm, _, rest = authorization.partition(" ")
    if algorithm != ALGORITHM:
        raise SqsError(
            ErrorKind.MISSING_AUTHENTICATION_TOKEN, "Request is missing Authentication Token"
        )
    parts: dict[str, str] = {}
    for each in rest.split(","):
        parameter = _PARAMETER.fullmatch(each)
        if parameter is not None:
            parts[parameter[1]] = parameter[2]
    for name in ("Credential", "Signature", "SignedHeaders"):
        if name not in parts:
            raise _incomplete(f"Authorization header requires '{name}' parameter.")
    return _claim(
        credential=parts["Credential"],
        signed_headers=parts["SignedHeaders"],
        signature=parts["Signature"],
        moment=_header_moment(found),
    )


def _claim_in_query(query: Query) -> Claim:
    found: dict[str, str] = {}
    for name, value in query:
        if name.startswith(b"X-Amz-"):
            text = name.decode("latin-1")
            if text in found:
                raise _incomplete(f"AWS query-string parameter '{text}' is given twice.")
            found[text] = value.decode("latin-1")
    if found["X-Amz-Algorithm"] != ALGORITHM:
        raise _incomplete(f"Unsupported AWS 'algorithm': '{found['X-Amz-Algorithm'][:64]}'.")
    for needed in ("Credential", "Date", "Expires", "Signature", "SignedHeaders"):
        if f"X-Amz-{needed}" not in found:
            raise _incomplete(f"AWS query-string parameters must include 'X-Amz-{needed}'.")
    expires = found["X-Amz-Expires"]
    if not re.fullmatch("[0-9]{1,6}", expires) or not 1 <= int(expires) <= EXPIRES_MAX_SECONDS:
        raise _incomplete(f"'X-Amz-Expires' must be between 1 and {EXPIRES_MAX_SECONDS} seconds.")
    return _claim(
        credential=found["X-Amz-Credential"],
        signed_headers=found["X-Amz-SignedHeaders"],
        signature=found["X-Amz-Signature"],
        moment=_moment(found["X-Amz-Date"]),
        expires=timedelta(seconds=int(expires)),
    )


def _claim(
    *,
    credential: str,
    signed_headers: str,
    signature: str,
    moment: datetime,
    expires: timedelta | None = None,
) -> Claim:
    parts = credential.split("/")
    if len(parts) != 5:
        raise _incomplete("Credential must have exactly 5 slash-delimited elements.")
    key_id, date, region, service, terminator = parts
    if service != SERVICE or terminator != _TERMINATOR:
        raise _mismatch(f"Credential should be scoped to correct service: '{SERVICE}'.")
    if date != moment.strftime("%Y%m%d"):
        raise _mismatch("Date in Credential scope does not match YYYYMMDD from ISO-8601 version.")
    names = tuple(signed_headers.split(";"))
    if len(names) > SIGNED_HEADERS_MAX:
        raise _incomplete(f"at most {SIGNED_HEADERS_MAX} headers may be signed.")
    if list(names) != sorted(set(names)) or any(name != name.lower() for name in names):
        raise _incomplete("SignedHeaders must be small letters, sorted, and each of them once.")
    if not _SIGNATURE.fullmatch(signature):
        raise _mismatch()
    return Claim(
        key_id=key_id,
        date=date,
        region=region,
        signed_headers=names,
        signature=signature,
        moment=moment,
        expires=expires,
    )


def _header_moment(headers: dict[bytes, str]) -> datetime:
    if b"x-amz-date" in headers:
        return _moment(headers[b"x-amz-date"])
    try:
        # RFC 9110, 5.6.7.
        moment = parsedate_to_datetime(headers[b"date"])
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (KeyError, ValueError, OverflowError):
        raise _incomplete(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."
        ) from None


def _moment(text: str) -> datetime:
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        raise _incomplete(
            "Date must be in ISO-8601 'basic format', such as 20150830T123600Z."
        ) from None


def _check_time(claim: Claim, now: datetime) -> None:
    said, clock = f"{claim.moment:{_MOMENT}}", f"{now:{_MOMENT}}"
    if claim.moment - now > SKEW:
        raise _expired(f"Signature not yet current: {said} is still later than {clock} + 15 min.")
    if claim.expires is None:
        if now - claim.moment > SKEW:
            raise _expired(f"Signature expired: {said} is now earlier than {clock} - 15 min.")
    elif now > claim.moment + claim.expires:
        raise _expired(f"Signature expired: {said} was good for {claim.expires.seconds} s.")


# --- what it is held against --------------------------------------------------------------


def check_signature(claim: Claim, request: Request, body: bytes, secret: str) -> None:
    """Raises where another secret, or another request, was signed."""
    body_hash = hashlib.sha256(body).hexdigest()
    for name, value in request.headers:
        # UNSIGNED-PAYLOAD is for S3 alone: whoever has the line could change what is sent.
        if name == _CONTENT_HASH.encode() and value.decode("latin-1") != body_hash:
            raise _mismatch("The value of 'x-amz-content-sha256' is not the hash of the body.")
    expected = sign(claim, canonical_request(claim, request, body_hash), secret)
    if not hmac.compare_digest(expected, claim.signature):
        raise _mismatch()


def canonical_request(claim: Claim, request: Request, body_hash: str) -> bytes:
    values: dict[str, list[bytes]] = {name: [] for name in claim.signed_headers}
    for name, value in request.headers:
        found = values.get(name.decode("latin-1"))
        if found is not None:
            found.append(b" ".join(value.split()))
    lines = [
        request.method.encode(),
        _canonical_path(request.path),
        _canonical_query(request.query),
        *(name.encode("latin-1") + b":" + b",".join(each) for name, each in values.items()),
        b"",
        ";".join(claim.signed_headers).encode("latin-1"),
        body_hash.encode(),
    ]
    return b"\n".join(lines)


def sign(claim: Claim, canonical: bytes, secret: str) -> str:
    to_sign = "\n".join(
        (
            ALGORITHM,
            claim.moment.strftime(_MOMENT),
            "/".join(claim.scope),
            hashlib.sha256(canonical).hexdigest(),
        )
    )
    key = f"AWS4{secret}".encode()
    for part in claim.scope:
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, to_sign.encode(), "sha256").hex()


def _canonical_path(path: bytes) -> bytes:
    """Encoded once more than it came, without `.`, `..` and empty parts."""
    kept: list[bytes] = []
    parts = path.split(b"/")
    for part in parts:
        if part == b"..":
            if kept:
                kept.pop()
        elif part not in (b"", b"."):
            kept.append(part)
    normal = b"/" + b"/".join(kept)
    if kept and not parts[-1]:
        normal += b"/"
    return quote_from_bytes(normal, safe="/~").encode()


def _canonical_query(query: Query) -> bytes:
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in query
        if name != b"X-Amz-Signature"
    )
    return "&".join(f"{name}={value}" for name, value in pairs).encode()


# --- refusals -----------------------------------------------------------------------------


def unknown_key() -> SqsError:
    return SqsError(
        ErrorKind.INVALID_CLIENT_TOKEN_ID,
        "The security token included in the request is invalid.",
    )


def _mismatch(reason: str = "") -> SqsError:
    said = (
        "The request signature we calculated does not match the signature you provided. "
        "Check your AWS Secret Access Key and signing method."
    )
    return SqsError(ErrorKind.SIGNATURE_DOES_NOT_MATCH, reason or said)


def _incomplete(reason: str) -> SqsError:
    return SqsError(ErrorKind.INCOMPLETE_SIGNATURE, reason)


def _expired(reason: str) -> SqsError:
    return SqsError(ErrorKind.REQUEST_EXPIRED, reason)
