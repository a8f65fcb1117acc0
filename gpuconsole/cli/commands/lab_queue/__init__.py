"""Commands on the lab's queue as a whole: reports, its audit, its journal, messages."""
