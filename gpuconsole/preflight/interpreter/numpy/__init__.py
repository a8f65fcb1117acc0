"""A model of NumPy: shapes and types, seldom contents."""
