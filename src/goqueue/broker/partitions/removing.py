"""The folders of deleted partitions, removed in the background: a topic may have thousands of them.

They were marked before, by their names; what a stop leaves, the next start removes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from goqueue.storage.disk import Disk
from goqueue.storage.partition_files import remove_folder

logger = logging.getLogger(__name__)


class FolderRemoval:
    """One folder at a time, in a thread of its own: nobody waits for it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._marked: deque[Path] = deque()
        self._has_work = asyncio.Event()
        self._is_closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="goqueue-remove")

    def add(self, folders: Iterable[Path]) -> None:
        self._marked.extend(folders)
        self._has_work.set()

    async def run_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._marked:
                await loop.run_in_executor(self._thread, self._remove, self._marked.popleft())

    def _remove(self, folder: Path) -> None:
        try:
            remove_folder(self._disk, folder, is_over=lambda: self._is_closed)
        except OSError as error:
            logger.error("%s stays until the next start: %s", folder, error)

    def close(self) -> None:
        """Waits for the file under way."""
        self._is_closed = True
        self._thread.shutdown(wait=True)
