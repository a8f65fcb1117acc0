"""Pure functions from the model to lines of styled text; they know ink but no widget."""
