"""From the options of `goqueue serve` to a running broker, importing no more than it needs."""

import os
from collections.abc import Mapping
from pathlib import Path

from goqueue.server.needless_imports import skip_needless_imports
from goqueue.server.setting_sources import load_broker_config


def start_broker(
    options: Mapping[str, str], *, config_file: Path | None, ready_file: Path | None
) -> None:
    """Runs until SIGTERM or Ctrl-C; raises `GoQueueError` when it cannot start."""
    loaded = load_broker_config(config_file=config_file, environment=os.environ, options=options)
    skip_needless_imports()
    if ready_file is not None:
        # One that was killed left it behind, and this one is not ready yet.
        ready_file.unlink(missing_ok=True)

    from goqueue.server.workers.folder import is_of_workers

    if loaded.workers > 1 or is_of_workers(loaded.data_dir):
        from goqueue.server.workers import supervisor

        supervisor.supervise(loaded, ready_file=ready_file)
    else:
        from goqueue.server import process

        process.serve(loaded, ready_file=ready_file)
