"""How a handler runs: threads, processes, generators, dependencies, limits."""
