"""Benchmarks: redstart beside its peers, in one run, by one generator. `python -m bench --help`."""
