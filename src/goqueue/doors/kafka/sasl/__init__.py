"""Log-in on Kafka's door, while security is on: SaslHandshake, SaslAuthenticate, and what a
connection may ask before and after.

A `SaslSession` is the state of one connection; `SaslSessions` has those of all that are open and
ends those whose users or tokens are gone; `connection` is a connection on which they are asked.
"""
