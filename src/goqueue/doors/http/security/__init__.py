"""Who may do what, over HTTP: users, keys, rules, tenants, quotas, the audit, browser sessions."""
