"""The only I/O of the core: stdio, HTTP, memory."""
