"""`goqueue` with snapshots of state topics after a few records: as one that has run for days."""

from goqueue.broker.runtime import snapshots
from goqueue.cli.entry import main

if __name__ == "__main__":
    setattr(snapshots, "SNAPSHOT_RECORDS", 3)  # noqa: B010
    setattr(snapshots, "SNAPSHOT_MIN_GAP_MS", 0)  # noqa: B010
    main()
