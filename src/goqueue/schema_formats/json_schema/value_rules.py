"""Rules for strings, numbers and listed values."""

from fractions import Fraction

from goqueue.schema_formats.json_schema.json_text import equality_key
from goqueue.schema_formats.json_schema.reasons import Path, Reason, limit_reasons
from goqueue.schema_formats.json_schema.shapes import Constant, Enumeration, Numbers, Strings


def compare_strings(writer: Strings, reader: Strings) -> list[Reason]:
    reasons = limit_reasons(writer.limits, reader.limits)
    if reader.pattern is not None and reader.pattern != writer.pattern:
        if writer.pattern is None:
            text = f"the reader has pattern {reader.pattern[:100]!r}, the writer has none"
            reasons.append(Reason("PATTERN_ADDED", text, Path("pattern")))
        else:
            text = f"the reader's pattern {reader.pattern[:100]!r} is not the writer's"
            reasons.append(Reason("PATTERN_CHANGED", text, Path("pattern")))
    return reasons


def compare_numbers(writer: Numbers, reader: Numbers) -> list[Reason]:
    reasons = limit_reasons(writer.limits, reader.limits)
    if reader.multiple_of is not None:
        wanted = Fraction(str(reader.multiple_of))
        kind = ""
        if writer.multiple_of is None:
            kind = "MULTIPLE_OF_ADDED"
        elif (had := Fraction(str(writer.multiple_of))) != wanted and had % wanted != 0:
            kind = "MULTIPLE_OF_CHANGED" if wanted % had else "MULTIPLE_OF_EXPANDED"
        if kind:
            text = f"not each number written is a multiple of the reader's {reader.multiple_of}"
            reasons.append(Reason(kind, text, Path("multipleOf")))
    if reader.integers_only and not writer.integers_only:
        text = "the writer's numbers need not be integers, the reader's must be"
        reasons.append(Reason("TYPE_NARROWED", text))
    return reasons


def compare_enumerations(writer: Enumeration, reader: Enumeration) -> list[Reason]:
    had = {equality_key(value) for value in writer.values}
    wanted = {equality_key(value) for value in reader.values}
    if had <= wanted:
        return []
    kind = "ENUM_ARRAY_NARROWED" if wanted <= had else "ENUM_ARRAY_CHANGED"
    lost = next(value for value in writer.values if equality_key(value) not in wanted)
    text = f"the writer's enum has {str(lost)[:100]!r}, the reader's has not"
    return [Reason(kind, text, Path("enum"))]


def compare_constants(writer: Constant, reader: Constant) -> list[Reason]:
    if equality_key(writer.value) == equality_key(reader.value):
        return []
    text = f"the writer's const {str(writer.value)[:100]!r} is not the reader's"
    return [Reason("ENUM_ARRAY_CHANGED", text, Path("const"))]
