"""Trace-driven simulation of a lab: the same engine that places live jobs, and a clock made up.

`lab_file` reads which hosts there are, `trace_readers` which jobs came when, `workload` draws what
a trace does not say, `event_loop` plays it under one policy, `metrics` sums up, `compare` holds
several policies against each other. Nothing here reads a file, a clock or a source of chance by
itself.
"""
