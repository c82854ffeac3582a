"""Whole numbers out of texts that others wrote: headers, forms, paths.

Python's own `isdigit` and `isdecimal` say yes to digits that `int` refuses (`²`) and to numbers of
any length, and `int` refuses those of more than 4,300 digits.
"""

from typing import Final

# Every number of at most 18 digits fits into 64 bits.
DIGITS_MAX: Final = 18


def number_in(text: str | None, digits_max: int = DIGITS_MAX) -> int | None:
    """The number that the text is, in ASCII digits and nothing else; None for any other text."""
    if not text or len(text) > digits_max or not (text.isascii() and text.isdigit()):
        return None
    return int(text)
