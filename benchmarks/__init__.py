"""The figures of tenure, each by one command: `python -m benchmarks NAME`."""
