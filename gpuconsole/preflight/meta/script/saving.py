"""What `paddle.save` writes of tensors whose data is unknown: the number that all of it is.

A network of a GiB takes seconds to write, each epoch again, and holds nothing that anyone reads.
What is loaded of such a file is as large as what was saved.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..state import STATE
from ..values import known


def install() -> None:
    """Give Paddle's own saving arrays that are written as one number; once it is imported."""
    numpy: Any = importlib.import_module("numpy")

    class Same(numpy.ndarray):  # type: ignore[misc]
        """An array of one number."""

        def __reduce__(self) -> Any:
            return numpy.full, (self.shape, self.reshape(-1)[0].item(), self.dtype)

    class Numpy:
        """NumPy, as the module that saves sees it."""

        def __getattr__(self, name: Any) -> Any:
            return getattr(numpy, name)

        def array(self, value: Any, *args: Any, **kwargs: Any) -> Any:
            """Make an array of a tensor, or of anything else."""
            if args or kwargs or not isinstance(value, STATE.tensor) or value.m_known is not None:
                return numpy.array(value, *args, **kwargs)
            return known.held(known.plausible(value), value).view(Same)

    saving: Any = importlib.import_module("paddle.framework.io")
    saving.np = Numpy()
