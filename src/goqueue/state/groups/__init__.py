"""The group coordinator: members, generations, assignments and offsets of consumer groups.

`GroupMachine` (coordinator.py) is one machine per partition of the offsets topic. It owns the state
of all groups that hash there; a single caller drives it. Durable state (offsets, the last completed
generation of classic groups, everything of consumer groups) changes in `replay` only. Sessions,
parked requests and half-done rebalances of the classic protocol are volatile, as in Kafka: members
come back and the rebalance starts again.

To add a kind of group (such as KIP-932's share groups, or KIP-1071's in `streams`), give it a
`Group` of its own, record keys, and a module with its commands; offsets and administration work
through `Group` alone.
"""
