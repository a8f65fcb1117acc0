"""Commands on hosts: their state, their tests, what they hold, recordings of them."""
