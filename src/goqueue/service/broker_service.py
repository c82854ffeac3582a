"""All operations of a broker, by what they are about."""

from uuid import UUID

from goqueue.broker.node import Node
from goqueue.model.broker_config import BrokerConfig
from goqueue.service.backups import BackupService
from goqueue.service.client_metrics import ClientMetricsService
from goqueue.service.cluster.administration import Administration
from goqueue.service.cluster.calls import CallService
from goqueue.service.cluster.cluster import ClusterService
from goqueue.service.cluster.replica_moves import ReplicaMoveService
from goqueue.service.cluster.replication import ReplicationService
from goqueue.service.delays import DelayService
from goqueue.service.groups.groups import GroupService
from goqueue.service.groups.hosted_members import HostedMemberService
from goqueue.service.groups.share_groups import ShareGroupService
from goqueue.service.groups.streams_groups import StreamsGroupService
from goqueue.service.hosted_producers import HostedProducerService
from goqueue.service.log import LogService
from goqueue.service.measuring import MeasuringService
from goqueue.service.publishing import PublishingService
from goqueue.service.queues.fifo import FifoService
from goqueue.service.queues.moves import MoveService
from goqueue.service.queues.queues import QueueService
from goqueue.service.queues.sqs_queues import SqsQueueService
from goqueue.service.routing import Routing
from goqueue.service.schemas import SchemaService
from goqueue.service.security.access import Access
from goqueue.service.security.audit import AuditService
from goqueue.service.security.authentication import Authentication
from goqueue.service.security.keys import KeyService
from goqueue.service.security.quotas import QuotaService
from goqueue.service.security.rule_asking import Rules
from goqueue.service.security.rules import RuleService
from goqueue.service.security.sasl.log_ins import LogIns
from goqueue.service.security.tenants import TenantService
from goqueue.service.security.tokens import TokenService
from goqueue.service.security.users import UserService
from goqueue.service.security.web_logins import WebLogins
from goqueue.service.topics import TopicService
from goqueue.service.tracing import TracingService
from goqueue.service.transactions import TransactionService


class BrokerService:
    """`rules` in place of those that are stored. While security is off there are none, and
    everyone may do everything."""

    def __init__(self, node: Node, rules: Rules | None = None) -> None:
        if rules is None and node.config.security_enabled:
            rules = node.security.rules
        witness = node.audit if node.audit.is_on else None
        access = Access(
            rules,
            witness,
            lambda: node.security.image.tenants,
            node.security.users.find,
            lambda topic_id: _name_of(node, topic_id),
        )
        if rules is not None:
            node.groups.sees = access.sees_found
            node.security.rights_listeners += (
                access.waits.rules_changed,
                node.groups.rights_changed,
            )
        routing = Routing(node)
        self.node = node
        self.topics = TopicService(node, access)
        self.log = LogService(node, access)
        self.replication = ReplicationService(node, access)
        self.publishing = PublishingService(node, access)
        self.queues = QueueService(node, access)
        self.sqs_queues = SqsQueueService(node, access)
        self.fifo = FifoService(node, access)
        self.moves = MoveService(node, access)
        self.share_groups = ShareGroupService(node, access)
        self.streams_groups = StreamsGroupService(node, access)
        self.groups = GroupService(node, access)
        self.members = HostedMemberService(node, access)
        self.transactions = TransactionService(node, access)
        self.producers = HostedProducerService(node, access)
        self.schemas = SchemaService(node, access)
        self.delays = DelayService(node, access)
        self.measuring = MeasuringService(node, access)
        self.tracing = TracingService(node, access)
        self.cluster = ClusterService(node, access)
        self.backups = BackupService(node, access)
        self.replica_moves = ReplicaMoveService(node, access)
        self.calls = CallService(node, access)
        self.client_metrics = ClientMetricsService(node, access)
        self.administration = Administration(node, access, routing)
        self.quotas = QuotaService(node, access)
        self.audit = AuditService(node, access)
        self.authentication = Authentication(node)
        self.tenants = TenantService(node, access)
        self.log_ins = LogIns(node, self.authentication)
        self.users = UserService(node, access)
        self.tokens = TokenService(node, access)
        self.rules = RuleService(node, access)
        self.web_logins = WebLogins(node, self.authentication)
        self.keys = KeyService(node, access)

    @property
    def config(self) -> BrokerConfig:
        return self.node.config


def _name_of(node: Node, topic_id: UUID) -> str | None:
    topic = node.image.topics_by_id.get(topic_id)
    return None if topic is None else topic.name
