"""Schema resolution: can a reader's schema read what was written with the writer's.

Kinds, places and the order of findings are those of Java's `SchemaCompatibility` (Avro 1.12), which
Confluent's registry reports. Two differences from the specification are Java's as well: names match
without their namespace, and a union of the reader takes the first branch that fits.
"""

from collections.abc import Generator
from typing import TypeAlias

from goqueue.model.schemas.formats import Incompatibility, SchemaSource
from goqueue.schema_formats.avro.schema_reading import read_schema
from goqueue.schema_formats.avro.schema_types import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Record,
    Union,
)

# Findings of a type are found again at each place that uses it; nobody reads more than these.
MAX_FINDINGS = 100
# Pairs of a reader's and a writer's type, about a second of work. It takes hundreds of records of
# one name in as many namespaces to have so many.
MAX_COMPARISONS = 100_000

Findings: TypeAlias = tuple[Incompatibility, ...]
# The last level of a path and the path before it; the root has no level before it.
_Path: TypeAlias = "tuple[_Path | None, str]"
# What a comparison asks to have compared first.
_Question: TypeAlias = tuple[_Path, AvroType, AvroType]
_Comparison: TypeAlias = Generator[_Question, Findings, Findings]

_ROOT: _Path = (None, "")
_PROMOTIONS = {
    ("long", "int"),
    ("float", "int"),
    ("float", "long"),
    ("double", "int"),
    ("double", "long"),
    ("double", "float"),
    ("bytes", "string"),
    ("string", "bytes"),
}


def incompatibilities(reader: SchemaSource, writer: SchemaSource) -> list[Incompatibility]:
    """Why data written with `writer` cannot be read with `reader`; nothing when it can."""
    # A field whose alias is the name of another field is ambiguous to any other writer only.
    if reader == writer:
        return []
    return list(_run_comparisons(read_schema(reader).root, read_schema(writer).root))


def _run_comparisons(reader: AvroType, writer: AvroType) -> Findings:
    """Comparisons wait for others on a stack of their own: types lead to types over thousands of
    names, deeper than calls may go."""
    pair = (id(reader), id(writer))
    # Nothing found as yet, for a pair under way: it fits unless something else is wrong.
    found: dict[tuple[int, int], Findings] = {pair: ()}
    waiting = [(pair, _compare(_ROOT, reader, writer))]
    answer: Findings | None = None
    while waiting:
        pair, comparison = waiting[-1]
        try:
            path, reader, writer = comparison.send(answer)  # type: ignore[arg-type]
        except StopIteration as done:
            answer = found[pair] = done.value[:MAX_FINDINGS]
            waiting.pop()
            continue
        pair = (id(reader), id(writer))
        answer = found.get(pair)
        if answer is None:
            if len(found) == MAX_COMPARISONS:
                return _finding("TOO_MANY_COMPARISONS", path, _TOO_MANY_COMPARISONS)
            found[pair] = ()
            waiting.append((pair, _compare(path, reader, writer)))
    assert answer is not None
    return answer


_TOO_MANY_COMPARISONS = (
    f"the schemas need more than {MAX_COMPARISONS} comparisons of types: use smaller unions"
)


def _finding(kind: str, path: _Path, message: str) -> Findings:
    levels = []
    level: _Path | None = path
    while level is not None:
        level, name = level
        levels.append(name)
    return (Incompatibility(kind, "/".join(reversed(levels)) or "/", message),)


def _compare(path: _Path, reader: AvroType, writer: AvroType) -> _Comparison:
    match reader, writer:
        case (_, Union()) | (Union(), _):
            return (yield from _compare_branches(path, reader, writer))
        case Array(), Array():
            return (yield (path, "items"), reader.items, writer.items)
        case Map(), Map():
            return (yield (path, "values"), reader.values, writer.values)
        case Record(), Record():
            found = _compare_names(path, reader, writer)
            return found + (yield from _compare_fields((path, "fields"), reader, writer))
        case Enum(), Enum():
            return _compare_names(path, reader, writer) + _compare_symbols(path, reader, writer)
        case Fixed(), Fixed():
            return _compare_names(path, reader, writer) + _compare_sizes(path, reader, writer)
    if reader.kind == writer.kind or (reader.kind, writer.kind) in _PROMOTIONS:
        return ()
    return _finding(
        "TYPE_MISMATCH", path, f"the reader's {reader.kind} cannot take the writer's {writer.kind}"
    )


def _compare_branches(path: _Path, reader: AvroType, writer: AvroType) -> _Comparison:
    found: Findings = ()
    if isinstance(writer, Union):
        for index, branch in enumerate(writer.branches):
            branch_path = (path, str(index))
            branch_found = yield branch_path, reader, branch
            if branch_found and isinstance(reader, Union):
                branch_found = _finding("MISSING_UNION_BRANCH", branch_path, _lacks_branch(branch))
            found += branch_found
        return found
    assert isinstance(reader, Union)
    for branch in reader.branches:
        if _may_fit(branch, writer) and not (yield path, branch, writer):
            return ()
    return _finding("MISSING_UNION_BRANCH", path, _lacks_branch(writer))


def _may_fit(branch: AvroType, writer: AvroType) -> bool:
    """Tells the many branches apart that need no comparison."""
    if isinstance(branch, Named) and isinstance(writer, Named) and branch.kind == writer.kind:
        return _have_same_name(branch, writer)
    return branch.kind == writer.kind or (branch.kind, writer.kind) in _PROMOTIONS


def _lacks_branch(writer: AvroType) -> str:
    name = f" {writer.name}" if isinstance(writer, Named) else ""
    return f"the reader's union has no branch that takes the writer's {writer.kind}{name}"


def _compare_fields(path: _Path, reader: Record, writer: Record) -> _Comparison:
    written = {field.name: field for field in writer.fields}
    found: Findings = ()
    for index, field in enumerate(reader.fields):
        field_path = (path, str(index))
        sources = [name for name in dict.fromkeys([field.name, *field.aliases]) if name in written]
        if len(sources) > 1:
            found += _finding(
                "AMBIGUOUS_FIELD",
                field_path,
                f"the reader's field {field.name!r} is {' and '.join(sources)} in the writer",
            )
        elif sources:
            found += yield (field_path, "type"), field.type, written[sources[0]].type
        elif not field.has_default:
            found += yield from _missing_field(field_path, field, writer)
    return found


def _missing_field(path: _Path, field: Field, writer: Record) -> _Comparison:
    if isinstance(field.type, Enum) and field.type.default is not None:
        # The default of an enum replaces symbols, not fields; Java names the types instead.
        return (yield (path, "type"), field.type, writer)
    return _finding(
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        path,
        f"the reader's field {field.name!r} has no default, and the writer does not have the field",
    )


def _have_same_name(reader: Named, writer: Named) -> bool:
    return reader.simple_name == writer.simple_name or writer.name in reader.aliases


def _compare_names(path: _Path, reader: Named, writer: Named) -> Findings:
    if _have_same_name(reader, writer):
        return ()
    return _finding(
        "NAME_MISMATCH",
        (path, "name"),
        f"the reader's {reader.kind} is named {reader.name}, the writer's {writer.name}",
    )


def _compare_symbols(path: _Path, reader: Enum, writer: Enum) -> Findings:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return ()
    return _finding(
        "MISSING_ENUM_SYMBOLS",
        (path, "symbols"),
        f"the reader's enum {reader.name} has no default and lacks {', '.join(missing)}",
    )


def _compare_sizes(path: _Path, reader: Fixed, writer: Fixed) -> Findings:
    if reader.size_bytes == writer.size_bytes:
        return ()
    return _finding(
        "FIXED_SIZE_MISMATCH",
        (path, "size"),
        f"the reader's {reader.name} has {reader.size_bytes} bytes, "
        f"the writer's {writer.name} {writer.size_bytes}",
    )
