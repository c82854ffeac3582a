"""The `goqueue` command.

`serve` runs a broker in this process; every other command is a client that knows a broker only by
its Kafka address. Modules import what is heavy inside the commands, so that `--help` and shell
completion stay fast. Owns no state.
"""
