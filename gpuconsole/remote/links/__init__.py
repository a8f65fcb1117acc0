"""Links to hosts: SSH, this machine, their streams, and what went wrong with them."""
