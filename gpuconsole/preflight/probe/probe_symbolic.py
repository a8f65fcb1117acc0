"""Placeholder until the symbolic tier arrives."""


class Session:
    """Refuses."""

    def __init__(self, paddle, request, channel):
        self.channel = channel

    def install(self):
        """Refuse."""
        self.channel.fail("unsupported", "The symbolic tier is not here yet.")
