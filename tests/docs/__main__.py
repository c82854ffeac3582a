"""`python -m tests.docs PAGE…`: follow pages and print where they differ, for their writers."""

import sys
import tempfile
from pathlib import Path

from tests.docs.pages import blocks
from tests.docs.reader import Reader

for name in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as folder, Reader(Path(folder)) as reader:
        for block in blocks(Path(name).resolve()):
            if not block.is_marked:
                print(f"{name}:{block.line}: {block.words!r} does not say what to do with it")
                continue
            for difference in reader.follow(block):
                print(difference, end="\n\n")
