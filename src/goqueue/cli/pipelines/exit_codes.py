"""How `goqueue pipeline run` ends, for cron, systemd, Airflow and its own restarts."""

from enum import IntEnum


class ExitCode(IntEnum):
    # All there was is done, or somebody stopped it.
    DONE = 0
    # It began and could not go on; the next run goes on where it was.
    FAILED = 1
    # The definition or the command line: no further try will do better.
    WRONG = 2
    # Another run of this pipeline is at it.
    RUNNING_ALREADY = 3
    # The broker or the cluster does not answer; later it may.
    NO_ANSWER = 4
