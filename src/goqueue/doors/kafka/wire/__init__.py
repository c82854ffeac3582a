"""Kafka messages to and from bytes, by kio's schemas. Pure: no sockets, no clock.

kio describes the messages. Its own reader is not put on the network: it reserves memory for
whatever array length a client declares (a frame of 20 bytes aborts the process), and it refuses
tagged fields it does not know, which the protocol says to skip (KIP-482).
"""
