"""How the parts of the machine of groups say no to each other."""

from goqueue.model.groups.errors import GroupError


class Refused(Exception):
    """A command ends with this error and changes nothing. Never leaves the machine."""

    def __init__(self, error: GroupError, message: str = "") -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message
