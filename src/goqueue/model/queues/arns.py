"""Names of queues as SQS' policies write them."""

import re
from typing import Final

_ARN: Final = re.compile(
    r"arn:(?P<partition>[a-z-]{1,20}):sqs:(?P<region>[a-z0-9-]{0,32})"
    r":(?P<account>\d{1,20}):(?P<name>[^:/]{1,249})"
)


def name_in_arn(arn: str) -> str | None:
    """None for what is no ARN of a queue. Account and region are kept in form only."""
    found = _ARN.fullmatch(arn)
    return found["name"] if found else None
