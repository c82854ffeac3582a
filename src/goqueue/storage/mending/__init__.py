"""Look for damage in a stopped broker's data directory, and mend what can be mended.

Blocking file code without state of its own. Checking changes nothing; mending keeps every file that
it replaces. A folder that a broker uses is refused.
"""
