"""Names of GoQueue's record headers: what producers ask for, and what dead letters tell."""

from typing import Final

PREFIX: Final = "goqueue-"
DELAY_MS: Final = "goqueue-delay-ms"
DELIVER_AT: Final = "goqueue-deliver-at"
PRIORITY: Final = "goqueue-priority"
TTL_MS: Final = "goqueue-ttl-ms"

DEAD_LETTER_PREFIX: Final = "goqueue-dlq-"
DEAD_LETTER_TOPIC: Final = "goqueue-dlq-topic"
DEAD_LETTER_PARTITION: Final = "goqueue-dlq-partition"
DEAD_LETTER_OFFSET: Final = "goqueue-dlq-offset"
DEAD_LETTER_GROUP: Final = "goqueue-dlq-group"
DEAD_LETTER_COUNT: Final = "goqueue-dlq-delivery-count"
DEAD_LETTER_REASON: Final = "goqueue-dlq-reason"
# Why a batch could not be decoded, for which this letter stands, and its last offset.
DEAD_LETTER_PROBLEM: Final = "goqueue-dlq-problem"
DEAD_LETTER_LAST_OFFSET: Final = "goqueue-dlq-last-offset"
DEAD_LETTER_TIME: Final = "goqueue-dlq-time"
# Tells copies of the same death apart from later ones of the same message.
DEAD_LETTER_ID: Final = "goqueue-dlq-id"
