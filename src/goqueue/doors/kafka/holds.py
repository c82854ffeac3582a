"""Why a connection is not read from at the moment."""

from typing import Final

UNSENT_ANSWERS: Final = "unsent answers"
REQUESTS_IN_FLIGHT: Final = "requests in flight"
MEMORY: Final = "memory"
# Its client has used more than it may.
QUOTA: Final = "quota"
FAILURE: Final = "failure"
SHUTDOWN: Final = "shutdown"

# With these, no request is started either that was read before.
STANDING_STILL: Final = frozenset({UNSENT_ANSWERS, QUOTA})
