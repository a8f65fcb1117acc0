"""Containers of every host, whoever made them: looked at, their logs read, commands run in them."""
