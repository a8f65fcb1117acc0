"""gpuconsole: a terminal cluster console for small GPU labs."""

__version__ = "0.1.0"

__all__ = ["__version__"]
