"""The one place where it is decided who may do what. Only it makes rights for callers: of each kind
of thing in a file of `rights/`, by what `rights/deciding.py` says.

While security is off there are no rules, and everyone is a super user.

Behind the doors things have inner names, which begin with the tenant they belong to. Nobody gets a
right to what another tenant has, whatever rules say; rules are asked by the names that the tenant
itself uses (decision 26).
"""

from goqueue.service.security.rights.accounts import AccountRights
from goqueue.service.security.rights.cluster import ClusterRights
from goqueue.service.security.rights.groups import GroupRights
from goqueue.service.security.rights.producers import ProducerRights
from goqueue.service.security.rights.subjects import SubjectRights
from goqueue.service.security.rights.topics import TopicRights


class Access(TopicRights, GroupRights, ProducerRights, SubjectRights, ClusterRights, AccountRights):
    """Every right, asked for by the operations of `service/`."""
