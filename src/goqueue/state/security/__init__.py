"""Who may do what: users, rules, keys, tokens, tenants, quotas as the metadata has them. Pure."""
