"""Two heads for the lab's queue: one leads, the other follows its journal and may take over."""
