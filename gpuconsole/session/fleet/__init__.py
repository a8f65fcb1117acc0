"""The hosts as the queue may use them: drained, suspended, silent, faulty, leased."""
