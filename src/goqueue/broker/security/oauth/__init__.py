"""Tokens of an identity provider (JWT, RFC 7519): its keys, and what its tokens say.

The libraries for it are loaded with the first token, and work in threads.
"""
