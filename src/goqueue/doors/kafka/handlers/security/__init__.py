"""Log-ins, credentials, rules, delegation tokens, quotas."""
