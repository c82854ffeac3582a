"""How what all share is divided among parties: tenants, and users without one. Pure.

`headcount` knows how many each party has, `shares` how many more it may have, and `line` whose turn
it is. `named_shares` and `amounts` know parties by the names of what they have. State:
whoever uses one of them has its own. They run where their owner runs.
"""
