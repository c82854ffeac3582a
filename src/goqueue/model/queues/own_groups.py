"""Groups that the broker reads queues with by itself. Clients have no business with them: who
deleted one, or moved it, would undo what everybody's queues have delivered."""

from collections.abc import Mapping
from typing import Final

from goqueue.model.queues.dead_letters import REDRIVE_GROUP
from goqueue.model.queues.sqs_queue import SQS_GROUP

# With what the broker uses each for, as a refusal says it.
OWN_GROUPS: Final[Mapping[str, str]] = {
    SQS_GROUP: "it reads all queues for SQS",
    REDRIVE_GROUP: "it sends dead letters back",
}
