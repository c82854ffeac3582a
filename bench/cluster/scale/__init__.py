"""What becomes of a cluster with 100 brokers and a million partitions, without having one.

The metadata of such a cluster is made up, key by key, and given to the code that brokers run on it:
the image, the controller's plan, placement, the Metadata answer. Logs are opened in some thousands.
The rest is arithmetic. `docs/scale.md` says what follows from it.
"""
