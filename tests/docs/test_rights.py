"""The page of rights says what operations declare."""

from tests.docs.rights import PAGE, page


def test_the_page_is_what_operations_declare() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.docs.rights"
