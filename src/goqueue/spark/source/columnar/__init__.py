"""Typed columns in machine code: whole columns of payloads to Arrow, without Python per record.

A program (`avro_program`, `protobuf_program`) says how payloads of one schema lie; compiled code
(`avro_values`, `protobuf_values`) follows it and appends to the columns of `memory`. What this does
not know (unions of several types, types that contain themselves, defaults of missing fields) and
every payload that it cannot read goes to `row_decoding`, which reads everything and says what is
wrong. Threads share nothing.
"""
