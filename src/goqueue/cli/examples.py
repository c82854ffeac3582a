"""Examples below a command's help."""


def examples(*commands: str) -> str:
    """An epilog of lines to copy; blank lines keep them apart."""
    return "\n\n".join(("Examples:", *commands))
