"""What clients and the broker say to each other at log-in, by mechanism. Pure: no clock, no nonce
and no record is made here, all are given."""
