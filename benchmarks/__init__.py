"""Side-by-side measurements behind the figures of the README. Run by hand, never by the tests."""
