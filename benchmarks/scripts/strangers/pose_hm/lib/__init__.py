from . import losses, nets  # noqa: F401  (register)
