"""Log-ins over SASL (RFC 4422): a conversation by mechanism, each in its own file.

Doors carry the messages. What fails is `AuthenticationFailed`, at once and with the reason; the
door waits for as long as is set, and tells the client the same whatever was wrong.
"""
