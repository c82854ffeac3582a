"""Who somebody is, and who may do what.

Purpose: `authentication.py` says who a caller is, `access.py` alone (with the files of
`rights/`) makes rights; users, rules, keys, tokens, tenants and quotas are changed here, and
`audited.py` tells the audit of changes.
State: none but waits and conversations that are going on; the node has the rest. Concurrency: the
broker's event loop; a witness is told from threads, too.
"""
