import pytest

from goqueue.model.digits import number_in


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_numbers(text: str, number: int) -> None:
    assert number_in(text) == number


@pytest.mark.parametrize("text", [None, "", "-1", " 1", "1.0", "²", "٣", "1" * 19, "9" * 5_000])
def test_other_texts(text: str | None) -> None:
    assert number_in(text) is None


def test_more_digits_where_they_are_meant() -> None:
    assert number_in("1" * 20, 20) == int("1" * 20)
