"""protoc inside this process: .proto texts in, serialised descriptors out.

protoc's library entry answers errors as objects, where its command line would write them to file
descriptor 2, which belongs to the whole process. It holds the interpreter's lock while it runs,
so a broker calls this in a process of its own. Texts that would make it overflow its stack are
refused before it sees them.
"""

import ast
import re
import warnings
from collections.abc import Container, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Final

from goqueue.model.schemas.formats import InvalidSchema
from goqueue.schema_formats.protobuf.known_types import is_known, mentioned_in, protoc_folder

# A megabyte of schema keeps protoc busy for half a second; written by hand, none is near it.
MAX_TEXT_CHARS: Final = 1_048_576
# protoc recurses once per import; it was seen to survive 5,000.
MAX_FILES: Final = 1_000
# protoc allows 32 nested messages. It recurses once per bracket in option values without a limit
# of its own and ends the process at some ten thousand.
MAX_NESTING: Final = 100
# More errors than this help nobody.
_MAX_REPORTED_ERRORS: Final = 5

# What is not ended goes on to the line's or file's end, for protoc too; so nothing is tried twice.
_TEXT_OR_COMMENT: Final = re.compile(
    r'"(?:[^"\\\n]|\\[^\n])*"?'
    r"|'(?:[^'\\\n]|\\[^\n])*'?"
    r"|//[^\n]*"
    r"|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_BRACKET: Final = re.compile(r"[{}\[\]<>]")
_LONG_PATH: Final = re.compile(r"(?:\.\s*\w+\s*)" + f"{{{MAX_NESTING + 1}}}")
_SYNTAX: Final = re.compile(r"\s*(?:syntax|edition)\b")
# protoc logs to file descriptor 2 that a file without syntax is proto2: say it to it.
_PROTO2: Final = 'syntax = "proto2"; '
_DESCRIPTOR: Final = re.compile(rb"AddSerializedFile\((b'(?:[^'\\]|\\.)*')\)")


def compile_files(text: str, references: Mapping[str, str]) -> list[bytes]:
    """The serialised descriptors of what `text` imports, in order of need, and of itself, last."""
    _check_bounds(text, references)
    name = free_name(references)
    with TemporaryDirectory(prefix="goqueue-protoc-") as folder:
        for file_name, file_text in references.items():
            if not is_known(file_name):
                _write(Path(folder), file_name, file_text)
        for file_name, file_text in mentioned_in([text, *references.values()]):
            _write(Path(folder), file_name, file_text)
        _write(Path(folder), name, text)
        compiler = _compiler()
        try:
            generated = compiler.get_protos(
                name.encode(), [folder.encode(), str(protoc_folder()).encode()]
            )
        except compiler.ProtocErrors as errors:
            lacks_syntax = {
                file_name
                for file_name, file_text in [*references.items(), (name, text)]
                if not _has_syntax(file_text)
            }
            raise InvalidSchema(_explain(errors.errors(), name, lacks_syntax)) from None
    return [_descriptor_in(code) for _, code in generated]


@cache
def _compiler() -> ModuleType:
    # Not grpc_tools.protoc: importing that one changes how Python finds modules.
    from grpc_tools import _protoc_compiler

    warnings.simplefilter("ignore", _protoc_compiler.ProtocWarning)
    module: ModuleType = _protoc_compiler
    return module


def _descriptor_in(code: bytes) -> bytes:
    """The library entry answers Python modules; each carries its descriptor as a literal."""
    found = _DESCRIPTOR.search(code)
    if found is None:
        raise RuntimeError("protoc's Python output has no descriptor: check grpcio-tools' version")
    descriptor: bytes = ast.literal_eval(found[1].decode("ascii"))
    return descriptor


def free_name(taken: Container[str]) -> str:
    """A name for the schema's own file that no reference has."""
    name = "schema.proto"
    while name in taken:
        name = "_" + name
    return name


def check_size(size_chars: int) -> None:
    if size_chars > MAX_TEXT_CHARS:
        raise InvalidSchema(
            f"the schema and its references have {size_chars:,} characters, the limit is"
            f" {MAX_TEXT_CHARS:,}: leave out what is not used"
        )


def _check_bounds(text: str, references: Mapping[str, str]) -> None:
    if len(references) >= MAX_FILES:
        raise InvalidSchema(f"{len(references)} references: the limit is {MAX_FILES - 1}")
    check_size(len(text) + sum(map(len, references.values())))
    for name, file_text in [("", text), *references.items()]:
        _check_nesting(f"reference {name}: " if name else "", file_text)


def _check_nesting(where: str, text: str) -> None:
    code = _TEXT_OR_COMMENT.sub('""', text)
    depth = deepest = 0
    for bracket in _BRACKET.findall(code):
        depth = depth + 1 if bracket in "{[<" else max(0, depth - 1)
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        raise InvalidSchema(f"{where}brackets are nested {deepest} deep: at most {MAX_NESTING}")
    if _LONG_PATH.search(code):
        raise InvalidSchema(f"{where}a dotted name has more than {MAX_NESTING} parts")


def _has_syntax(text: str) -> bool:
    return _SYNTAX.match(_TEXT_OR_COMMENT.sub(" ", text)) is not None


def _write(folder: Path, name: str, text: str) -> None:
    parts = name.split("/")
    if not name.isprintable() or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise InvalidSchema(f"{name!r} is no name to import by: use a relative path")
    if not _has_syntax(text):
        text = _PROTO2 + text
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (OSError, UnicodeEncodeError) as error:
        raise InvalidSchema(f"{name!r} cannot be a file that is imported: {error}") from None


def _explain(errors: list[object], main: str, lacks_syntax: set[str]) -> str:
    sentences = []
    for error in errors:
        name = _as_text(getattr(error, "filename", ""))
        line, column = getattr(error, "line", -1), getattr(error, "column", 0)
        message = _as_text(getattr(error, "message", ""))
        if line < 0 and message == "File not found.":
            continue  # the import that asked for it is reported too, with its place
        if line == 0 and name in lacks_syntax:
            column = max(0, column - len(_PROTO2))
        place = f"{line + 1}:{column + 1}: " if line >= 0 else ""
        where = "" if name == main else f"reference {name} "
        if message.endswith("was not found or had errors."):
            message += " Register the imported file and name it in the schema's references."
        sentences.append(f"{where}{place}{message}")
    left_out = len(sentences) - _MAX_REPORTED_ERRORS
    if left_out > 0:
        sentences[_MAX_REPORTED_ERRORS:] = [f"and {left_out} more"]
    return "; ".join(sentences) or "protoc refused the schema without a reason"


def _as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
