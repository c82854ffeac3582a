"""Names that are ours and names that are not, pages that are ours and pages that are not."""

from collections.abc import Mapping

import pytest

from goqueue.doors.web.site_guard import SiteGuard, is_from_own_page

GUARD = SiteGuard(["Broker.Example.", "", "0.0.0.0", "::1", ".pods.example"])


def status(method: str = "GET", /, **headers: str) -> int:
    return status_at(GUARD, method, **headers)


def status_at(guard: SiteGuard, method: str = "GET", /, **headers: str) -> int:
    """What a request with these headers is refused with; 0 if it is let in."""
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    refused = guard.refusal({"method": method, "headers": pairs})
    return 0 if refused is None else refused.status


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "sqs.localhost:8080",
        "127.0.0.1:8080",
        "10.1.2.3",
        "[::1]:8080",
        "[fe80::1]",
        "broker.example",
        "Broker.Example:80",
        "pods.example",
        "a.b.pods.example:1",
    ],
)
def test_names_of_this_broker(host: str) -> None:
    for _ in range(2):
        assert status(host=host) == 0
        assert status("POST", host=host) == 0


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "notlocalhost",
        "broker.example.evil",
        "evilpods.example",
        "127.0.0.1.evil.example",
        "127.1",
        "0.0.0.0.example",
        "[::1",
        "",
        "*",
        "example",
        "localhost:80@evil.example",
    ],
)
def test_other_names(host: str) -> None:
    assert status(host=host) == 421


def test_a_broker_without_names_of_its_own_takes_what_it_is_told_to() -> None:
    assert status_at(SiteGuard([]), host="evil.example") == 421
    assert status_at(SiteGuard(["*"]), host="evil.example") == 0
    assert status_at(SiteGuard([])) == 0


def test_ever_new_spellings_are_not_kept() -> None:
    guard = SiteGuard([])
    for port in range(2_000):
        assert status_at(guard, host=f"localhost:{port}") == 0
    assert len(guard._seen) <= 256


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({}, True),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "none"}, True),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "http://localhost:8080"}, False),
        ({"origin": "http://localhost:8080"}, True),
        ({"origin": "https://LOCALHOST:8080"}, True),
        ({"origin": "http://localhost:3000"}, False),
        ({"origin": "http://localhost"}, False),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "file://"}, False),
    ],
)
def test_what_changes_something_must_not_come_from_another_site(
    headers: Mapping[str, str], is_let_in: bool
) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "BREW"):
        assert status(method, host="localhost:8080", **headers) == (0 if is_let_in else 403)
    for method in ("GET", "HEAD", "OPTIONS"):
        assert status(method, host="localhost:8080", **headers) == 0


def test_an_address_typed_by_the_visitor_is_no_page_of_ours() -> None:
    typed = [(b"host", b"localhost"), (b"sec-fetch-site", b"none")]
    assert not is_from_own_page(typed)
    assert is_from_own_page(typed, or_visitor=True)
