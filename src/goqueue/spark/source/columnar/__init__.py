"""Typed columns in machine code: whole columns of payloads to Arrow, without Python per record.

Avro: a program (`avro_program`) says how payloads of one schema lie; compiled code (`avro_values`)
follows it and appends to the columns of `memory`. So it is with Protobuf (`protobuf_program`,
`protobuf_values`). JSON: payloads become lines (`json_lines`), which Arrow's own parser reads.
`row_decoding` reads everything, and says what is wrong. So it gets columns with a payload that
cannot be read here, and what is not known here: unions of several types, types that contain
themselves, defaults of missing fields; of Protobuf also repeated fields, maps and choices. Threads
share nothing.
"""
