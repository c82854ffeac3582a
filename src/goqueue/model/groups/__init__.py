"""Words of consumer and share groups: requests, answers, assignments, errors."""
