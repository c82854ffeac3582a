"""Who may do what, over HTTP: users, their keys, rules, and sessions of browsers."""
