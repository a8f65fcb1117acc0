"""A journal that was lost: its copies, and its jobs found again on the hosts."""
