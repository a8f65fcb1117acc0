"""A session for programs that speak the Model Context Protocol, over stdin and stdout."""
