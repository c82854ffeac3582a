"""One broker process: where its settings come from, how its parts are wired, how it ends.

`BrokerServer` owns the broker and its doors and lives on one event loop; `serve` runs one as a
process with signals and logging. Nothing below this package reads the environment or the command
line.
"""
