"""Small programs that start another one, kept in the user's cache."""

import os
import tempfile
from pathlib import Path

from crc32c import crc32c


def start_script(kind: str, path: str, content: str) -> Path:
    """The script at `path` in a folder of its own, named after `kind`; made once per user."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        folder = cache / "goqueue" / f"{kind}-{crc32c(content.encode()):08x}"
        return _written(folder / path, content)
    except OSError:  # a user without a home
        return _written(Path(tempfile.mkdtemp(prefix=f"goqueue-{kind}-")) / path, content)


def _written(script: Path, content: str) -> Path:
    if script.is_file() and script.read_text() == content:
        return script
    script.parent.mkdir(parents=True, exist_ok=True)
    # Another session may be doing the same: each writes a file of its own, and the last stays.
    draft = script.with_name(f"{script.name}.{os.getpid()}")
    draft.write_text(content)
    draft.chmod(0o755)
    draft.replace(script)
    return script
