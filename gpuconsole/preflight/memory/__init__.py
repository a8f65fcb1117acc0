"""From a trace of allocations to the memory of a device."""
