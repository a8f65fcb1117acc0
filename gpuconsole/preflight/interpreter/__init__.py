"""An abstract interpreter for training scripts: shapes and lifetimes, never the user's code."""
