"""Commands of access: users, rules, keys, tenants, quotas and the audit at a broker; profiles and
first set-up here.

Purpose: ask the administration over HTTP, as every other command does, and prepare what must be
there before a broker can be asked: certificates, a master key, the first administrator.
"""
