"""Commands of consumer groups and their offsets."""
