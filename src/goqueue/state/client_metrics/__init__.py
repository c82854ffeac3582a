"""Client metrics (KIP-714): who is to push what, how often, and what was pushed.

`ClientInstances` is driven by a single caller and keeps all of it in memory: a client that meets
another broker, or this one after a restart, is told anew what to push. What is to be pushed is kept
in the metadata.

| a client      | may, if                                                                      |
|---------------|------------------------------------------------------------------------------|
| asks          | an interval has passed since it asked or pushed, it never did, what it is to |
|               | push has changed, or its last push was refused as of another subscription or |
|               | codec                                                                        |
| pushes        | it has asked since its last push, an interval has passed, or it terminates   |
| has terminated| never again, until it is forgotten                                           |
"""
