"""Words of access: users and their credentials, rules, tokens, tenants, and the settings of it.

Purpose: what doors, services and machines share when they speak of who may do what. Everything is a
value; the broker keeps it in the metadata (`state/security`).
"""
