"""What processes share: the contracts, and their forms in memory and in databases."""
