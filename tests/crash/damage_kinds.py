"""What can happen to a file while no broker looks."""

import random
from pathlib import Path
from typing import NamedTuple

from tests.crash.damage_folders import Folders

# How often a log is chosen for each time that another kind of file is: what is lost there is lost.
LOG_WEIGHT = 3
WAYS = ("flip", "cut", "zero", "swap", "missing", "garbage", "repeat", "old")


class Damage(NamedTuple):
    """`path` is relative to the data directory. `is_active`: the segment that took appends last."""

    state: str
    kind: str
    path: Path
    way: str
    is_active: bool

    def __str__(self) -> str:
        return f"{self.state}: {self.way} {self.path}"


def kind_of(path: Path) -> str:
    """Files of one kind are written and read by the same code."""
    if path.parts[0] == "metadata":
        return "metadata " + path.name.partition("-")[0]
    if path.parts[0] != "logs":
        return path.suffix if path.parts[0] == "traces" else path.name
    if path.suffix in (".deleted", ".cleaned"):
        return path.suffix
    owner = "internal " if path.parts[1].startswith("_") else ""
    return owner + (path.suffix if path.stem.isdecimal() else path.name)


def stored_files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def inflict(chance: random.Random, folders: Folders, state: str, data: Path) -> Damage:
    """Damage one file of a copy; every kind of file is as likely as every other, logs more so."""
    files = stored_files(data)
    kinds = sorted({kind_of(path) for path in files})
    logs = [kind for kind in kinds if kind.endswith(".log")]
    kind = chance.choice(kinds + logs * LOG_WEIGHT)
    path = chance.choice([path for path in files if kind_of(path) == kind])
    alike = [other for other in files if kind_of(other) == kind and other != path]
    same_name = [other for other in alike if other.name == path.name]
    if same_name and chance.random() < 0.5:
        # That of another partition, of a segment or a snapshot with the same offsets.
        alike = same_name
    earlier = folders.earlier / path
    ways = [way for way in WAYS if (way != "swap" or alike) and (way != "old" or earlier.exists())]
    way = chance.choice(ways)
    content = (data / path).read_bytes()
    if way == "missing":
        (data / path).unlink()
    elif way == "swap":
        other = data / chance.choice(alike)
        (data / path).write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif way == "old":
        (data / path).write_bytes(earlier.read_bytes())
    else:
        (data / path).write_bytes(_changed(chance, way, content))
    segments = [other for other in files if other.parent == path.parent and other.suffix == ".log"]
    is_active = path.suffix == ".log" and path == max(segments)
    return Damage(state, kind, path, way, is_active)


def _changed(chance: random.Random, way: str, content: bytes) -> bytes:
    at = chance.randrange(len(content)) if content else 0
    end = min(len(content), at + chance.choice((1, 16, 200, 4096)))
    match way:
        case "flip" if content:
            flipped = content[at] ^ (1 << chance.randrange(8))
            return content[:at] + bytes([flipped]) + content[at + 1 :]
        case "cut":
            return content[:at]
        case "zero":
            return content[:at] + bytes(end - at) + content[end:]
        case "repeat":
            return content[:end] + content[at:]
        case _:
            return content + chance.randbytes(chance.choice((1, 61, 500)))
