"""AddPermission and RemovePermission: a queue's policy, which becomes rules if there are any."""

from goqueue.doors.sqs.addresses import queue_arn, queue_name
from goqueue.doors.sqs.answers import Done
from goqueue.doors.sqs.call import Call
from goqueue.doors.sqs.errors import missing
from goqueue.doors.sqs.requests import AddPermission, RemovePermission
from goqueue.model.queues.policies import Permission
from goqueue.service.broker_service import BrokerService


async def add_permission(service: BrokerService, call: Call, request: AddPermission) -> Done:
    name = queue_name(request.queue_url)
    if not request.label:
        raise missing("Label")
    if not request.account_ids:
        raise missing("AWSAccountIds")
    if not request.actions:
        raise missing("Actions")
    permission = Permission(request.label, request.account_ids, request.actions)
    arn = queue_arn(call.region, name)
    await service.sqs_queues.add_permission(call.caller, name, arn, permission)
    return Done()


async def remove_permission(service: BrokerService, call: Call, request: RemovePermission) -> Done:
    name = queue_name(request.queue_url)
    if not request.label:
        raise missing("Label")
    arn = queue_arn(call.region, name)
    await service.sqs_queues.remove_permission(call.caller, name, arn, request.label)
    return Done()
