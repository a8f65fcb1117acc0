"""Colours and symbols: themes, named styles, the ASCII filter."""
