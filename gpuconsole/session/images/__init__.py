"""Container images: which host has which, what is inside, and how they get there."""
