"""How what all share is divided among parties: tenants, and users without one. Pure.

`headcount` knows how many each party has, `shares` whether one may have more, and `line` whose turn
it is. State: whoever uses one of them has its own. They run where their owner runs.
"""
