"""How the hosts of a gang reach each other: asked on the host itself.

The address that the console connects to need not mean anything there (an alias, a name, a jump
host in between), so the host tells where its sshd was reached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuconsole.core.containers import HostNetwork
from gpuconsole.core.wording import msg
from gpuconsole.errors import Blame, EngineError
from gpuconsole.remote.links.protocol import Link

# No newline, quote or backslash that a login shell could read otherwise; `ip` may lie in sbin.
_ASK = (
    'PATH="$PATH:/usr/sbin:/sbin"; echo "reached $SSH_CONNECTION"; '
    "ip -4 route show default; ip -o -4 addr show; cat /proc/net/tcp /proc/net/tcp6; true"
)
_REACHED = re.compile(r"^reached \S+ \d+ (\S+) \d+$", re.M)
_DEFAULT = re.compile(r"^default .*\bdev (\S+)", re.M)
_ADDRESS = re.compile(r"^\d+: (\S+) +inet (\d+(?:\.\d+){3})/", re.M)
_LISTENING = re.compile(r"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:0000 0A ", re.M)


async def ask(link: Link, host: str, interface: str = "") -> HostNetwork:
    """Return how a host is reached over an interface, or over the one that ssh came in by.

    EngineError if the host has no such interface, or it cannot be determined.
    """
    done = await link.run(["sh", "-c", _ASK])
    text = done.stdout.decode(errors="replace")
    matches = _ADDRESS.findall(text)
    # Of several addresses of an interface its first one counts.
    addresses = dict(reversed(matches))
    chosen = interface or _interface(text, {address: name for name, address in matches})
    if chosen not in addresses:
        what = (
            f"no IPv4 address on {interface}" if interface else "no IPv4 address to be reached at"
        )
        raise EngineError(
            "No way between hosts",
            msg(
                "{host} has {what}, so it cannot take part in a job over several hosts.",
                host=host,
                what=what,
            ),
            "Set `interface:` in the inventory to the one that the other hosts reach.",
            blame=Blame.PLACE,
        )
    busy = frozenset(int(port, 16) for port in _LISTENING.findall(text))
    return HostNetwork(addresses[chosen], chosen, busy)


def _interface(text: str, by_address: Mapping[str, str]) -> str:
    """Return the interface that ssh came in by, else that of the default route."""
    reached = _REACHED.search(text)
    if reached and reached[1] in by_address:
        return by_address[reached[1]]
    default = _DEFAULT.search(text)
    return default[1] if default else ""
