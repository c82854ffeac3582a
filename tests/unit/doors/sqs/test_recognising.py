import pytest

from goqueue.doors.sqs.recognising import is_for_sqs

FORM = b"application/x-www-form-urlencoded"


@pytest.mark.parametrize("kind", [FORM, FORM.upper(), FORM + b"; charset=utf-8"])
def test_forms_however_their_kind_is_spelled(kind: bytes) -> None:
    """One in capitals was answered as if the path took no POST."""
    scope = {"method": "POST", "path": "/", "headers": [(b"content-type", kind)]}
    assert is_for_sqs(scope)


@pytest.mark.parametrize("path", ["/topics", "/1/q/x", "/q"])
def test_forms_sent_elsewhere_are_not_for_sqs(path: str) -> None:
    assert not is_for_sqs({"method": "POST", "path": path, "headers": [(b"content-type", FORM)]})
