"""The protoc command: .proto texts in, serialised descriptors out.

It runs as a process of its own, 1.5 ms for a small schema, and inherits the memory limit of the
worker that starts it. Texts that would make it overflow its stack are refused before it sees them.
"""

import re
import resource
import subprocess
import sys
from collections.abc import Container, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from goqueue.model.schemas.formats import InvalidSchema
from goqueue.schema_formats.protobuf.descriptor_sets import files_in
from goqueue.schema_formats.protobuf.known_types import (
    is_known,
    mentioned_in,
    protoc_command,
    protoc_folder,
)
from goqueue.schema_formats.protobuf.undeclared import unknown_in, without

# A megabyte of schema keeps protoc busy for half a second; written by hand, none is near it.
MAX_TEXT_CHARS: Final = 1_048_576
# protoc recurses once per import; it was seen to survive 5,000.
MAX_FILES: Final = 1_000
# protoc allows 32 nested messages. It recurses once per bracket in option values without a limit
# of its own and ends the process at some ten thousand.
MAX_NESTING: Final = 100
# It needs half a second for the largest text. A worker that is killed cannot end it: this does.
CPU_SECONDS_MAX: Final = 10
# protoc names one undeclared option of each element at a time; and missing imports before that.
MAX_ROUNDS: Final = 8
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
# As protoc writes them: some are about a file as a whole, and a message may go on in a new line.
_COMPLAINT: Final = re.compile(r"(?P<file>.+?):(?P<place>\d+:\d+:)? (?P<message>.*)")
# The import that asked for it is reported too, with its place.
_NOT_FOUND: Final = ": File not found."
_WARNING: Final = "warning: "


class CompiledFiles(NamedTuple):
    """`files` as from `compile_files`; `left_out` of the schema's own text, since undeclared."""

    files: list[bytes]
    left_out: tuple[str, ...] = ()


class _Refused(InvalidSchema):
    """With all that protoc said."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


def compile_schema(text: str, references: Mapping[str, str]) -> CompiledFiles:
    """As `compile_files`, but options that no file declares may be used."""
    try:
        return CompiledFiles(compile_files(text, references))
    except _Refused as refused:
        return _compile_without_undeclared(text, references, refused)


def _compile_without_undeclared(
    text: str, references: Mapping[str, str], refused: _Refused
) -> CompiledFiles:
    left_out: tuple[str, ...] = ()
    said = refused.said
    for _ in range(MAX_ROUNDS):
        unknown = unknown_in(said, references)
        if not (unknown.options or unknown.imports):
            break
        trimmed = without(text, unknown)
        text, left_out = trimmed.text, (*left_out, *trimmed.left_out)
        references = {name: without(one, unknown).text for name, one in references.items()}
        try:
            return CompiledFiles(compile_files(text, references), left_out)
        except _Refused as again:
            said = again.said
    raise refused


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
        return files_in(_run(Path(folder), name, references))


def _run(folder: Path, name: str, references: Container[str]) -> bytes:
    """The descriptors as a set, with where in the text they stand."""
    process = subprocess.Popen(
        [
            protoc_command(),
            "-I.",
            f"-I{protoc_folder()}",
            "--include_imports",
            "--include_source_info",
            "--descriptor_set_out=/dev/stdout",
            name,
        ],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _limit_time(process.pid)
    descriptors, said = process.communicate()
    if process.returncode == 1:
        complaints = said.decode("utf-8", "replace")
        raise _Refused(_explain(complaints, name, references), complaints)
    if process.returncode != 0:
        raise InvalidSchema("protoc could not cope with the schema; make it simpler")
    return descriptors


def _limit_time(pid: int) -> None:
    if sys.platform == "linux":
        try:
            resource.prlimit(pid, resource.RLIMIT_CPU, (CPU_SECONDS_MAX, CPU_SECONDS_MAX))
        except ProcessLookupError:
            return  # it was quicker


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


def _write(folder: Path, name: str, text: str) -> None:
    parts = name.split("/")
    if not name.isprintable() or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise InvalidSchema(f"{name!r} is no name to import by: use a relative path")
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (OSError, UnicodeEncodeError) as error:
        raise InvalidSchema(f"{name!r} cannot be a file that is imported: {error}") from None


def _explain(said: str, main: str, references: Container[str]) -> str:
    sentences: list[str] = []
    for line in said.splitlines():
        if line.endswith(_NOT_FOUND):
            continue
        found = _COMPLAINT.fullmatch(line)
        if found is None or not (found["file"] == main or found["file"] in references):
            if sentences:
                sentences[-1] += f" {line.strip()}"
            continue
        name, message = found["file"], found["message"]
        if message.startswith(_WARNING):
            continue
        place = f"{found['place']} " if found["place"] else ""
        where = "" if name == main else f"reference {name} "
        if message.endswith("was not found or had errors."):
            message += " Register the imported file and name it in the schema's references."
        sentences.append(f"{where}{place}{message}")
    left_out = len(sentences) - _MAX_REPORTED_ERRORS
    if left_out > 0:
        sentences[_MAX_REPORTED_ERRORS:] = [f"and {left_out} more"]
    return "; ".join(sentences) or said.strip() or "protoc refused the schema without a reason"
