"""The configuration files of clients: which client has which, and how one entry is changed and nothing else."""
