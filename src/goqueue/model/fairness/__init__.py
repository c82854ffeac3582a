"""How what all share is divided among parties. Pure.

`parties` says who they are: tenants, and users without one. Where names or the metadata tell whose
a thing is (`named_shares`, `amounts`), those without a tenant are one party. `headcount` knows how
many each has, `belongings` which ones, `shares` whether it may have more, and `line` whose turn it
is. State: whoever uses one of them has its own. They run where their owner runs.
"""
