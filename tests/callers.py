"""Who asks in tests that are not about rights."""

from goqueue.model.caller import ANONYMOUS, Caller, Door

ANYONE = Caller(principal=ANONYMOUS, door=Door.HTTP)
# Only SQS reads with the group that all its readers share.
SQS_READER = Caller(principal=ANONYMOUS, door=Door.SQS)
