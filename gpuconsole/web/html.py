"""The page: a terminal, and nothing from elsewhere."""

from __future__ import annotations

import json
from html import escape
from string import Template

POLICY = "; ".join((
    "default-src 'none'",
    "script-src 'self'",
    # The terminal sets the places of its letters as styles.
    "style-src 'self' 'unsafe-inline'",
    "font-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self' ws://$host wss://$host",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
))  # fmt: skip
_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>gpuconsole</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/css/xterm.css">
<script src="/page.js"></script>
<script src="/static/js/textual.js"></script>
<style>
@font-face { font-family: "Roboto Mono"; src: local("DejaVu Sans Mono"), local("Menlo"),
  local("Consolas"), url("/static/fonts/RobotoMono-VariableFont_wght.ttf"); }
html, body { margin: 0; height: 100%; background: #0f131a; color: #d5dae4; overflow: hidden; }
#frame { display: flex; flex-direction: column; height: 100vh; height: 100dvh; }
#grid { flex: 1; min-height: 0; overflow-x: auto; overflow-y: hidden; }
.textual-terminal { height: 100%; min-width: ${least}px; opacity: 0; }
#keys { display: none; gap: 4px; padding: 4px; overflow-x: auto; background: #1a202b; }
#keys button { flex: none; min-width: 44px; height: 44px; padding: 0 8px; font: 16px monospace;
  color: #d5dae4; background: #2a3342; border: 0; border-radius: 6px; touch-action: manipulation; }
#keys button:active { background: #47566e; }
@media (pointer: coarse), (max-width: ${least}px) { #keys { display: flex; } }
body.-first-byte .textual-terminal { opacity: 1; }
.note { position: absolute; inset: 0; display: flex; align-items: center; justify-content: center;
  font: 16px monospace; text-align: center; }
body.-first-byte .note { display: none; }
.closed { display: none; background: #0f131a; z-index: 10; }
body.-closed .closed { display: flex; }
a { color: #e6c35c; }
</style>
</head>
<body>
<div class="note">gpuconsole is starting</div>
<div class="note closed">The console has closed.&nbsp;<a href="/">Open it again</a></div>
<div id="frame">
<div id="grid"><div id="terminal" class="textual-terminal" data-font-size="$size"
  data-session-websocket-url="$scheme://$host/ws"></div></div>
<div id="keys">$keys</div>
</div>
</body>
</html>
""")


SCRIPT = """// Keys go to the terminal at once, without a click.
const looking = setInterval(() => {
  const field = document.querySelector(".xterm-helper-textarea");
  if (field) { field.focus(); clearInterval(looking); }
}, 50);

// The row of keys writes where the terminal does: this comes before the terminal's own script.
let socket = null;
window.WebSocket = class extends WebSocket {
  constructor(...words) { super(...words); socket = this; }
};
document.addEventListener("DOMContentLoaded", () => {
  const keys = document.querySelector("#keys");
  // A tap takes the focus from nothing: else the screen's keyboard would come and go.
  keys.addEventListener("pointerdown", (event) => event.preventDefault());
  keys.addEventListener("click", (event) => {
    const name = event.target.dataset.sends;
    if (name && socket && socket.readyState === WebSocket.OPEN) {
      socket.send(JSON.stringify(["stdin", JSON.parse(name)]));
    }
  });
});
"""

FONT_SIZE = 14
"""Pixels; the smallest at which a phone's grid is read."""
_LETTER = 0.6
"""Width of a letter of the font, of its size."""
LEAST_COLUMNS = 80
"""Columns that the grid has on any screen: a narrower one scrolls sideways."""
_SCROLL_BAR = 20
"""Pixels beside the letters."""
KEYS = {
    "esc": "\x1b", "tab": "\t", "enter": "\r", "↑": "\x1b[A", "↓": "\x1b[B", "←": "\x1b[D",
    "→": "\x1b[C", "space": " ", ":": ":", "/": "/", "?": "?", "1": "1", "2": "2", "3": "3",
    "4": "4", "5": "5",
}  # fmt: skip
"""The row of keys for screens that are touched, and what a terminal sends for each."""


def page(host: str, *, secure: bool, size: int = FONT_SIZE) -> str:
    """Return the page for a browser that knows us as `host`, a name that has been checked."""
    keys = "".join(
        f'<button data-sends="{escape(json.dumps(sent), quote=True)}">{label}</button>'
        for label, sent in KEYS.items()
    )
    return _PAGE.substitute(
        host=escape(host, quote=True), scheme="wss" if secure else "ws", size=size, keys=keys,
        least=round(LEAST_COLUMNS * _LETTER * size) + _SCROLL_BAR,
    )  # fmt: skip


def headers(host: str) -> dict[str, str]:
    """Return what every answer says beside its content."""
    return {
        "Content-Security-Policy": Template(POLICY).substitute(host=host),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
