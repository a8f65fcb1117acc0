"""Programs of this host: where they are, and that one came to nothing."""

import os
from typing import Optional


class FailureError(Exception):
    """A command that came to nothing; the text says why. `group` was killed and may live on."""

    def __init__(self, text: str, group: int = 0) -> None:
        super(FailureError, self).__init__(text)
        self.group = group


def program_path(program: str, path: str) -> Optional[str]:
    """Return where a program is in the folders of a search path; None where it is in none."""
    # Not `shutil.which`: to import that takes as long as all of this module.
    for folder in path.split(os.pathsep):
        place = os.path.join(folder, program)
        if folder and os.access(place, os.X_OK) and os.path.isfile(place):
            return place
    return None
