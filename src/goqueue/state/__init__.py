"""Pure state machines and views: what the broker remembers besides messages.

No clock, randomness, socket, file or asyncio in here: time and ids are arguments, effects are
return values. Each machine owns its state and is driven by one caller at a time, the runtime.
"""
