"""The state that processes share: its contract, and the implementation in memory."""
