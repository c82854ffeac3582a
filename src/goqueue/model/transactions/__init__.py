"""Words of transactions: requests, answers, states, errors."""
