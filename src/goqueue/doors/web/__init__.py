"""What the doors that speak HTTP have in common; each of them answers in its own protocol."""
