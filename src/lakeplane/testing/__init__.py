"""For tests, ours and yours: suites for every implementation of a contract, and faults on demand."""
