#!/usr/bin/env python3
"""Runs the demo, and draws parts of what it prints as pictures of a terminal.

    scripts/picture.py BINARY DIRECTORY

The pictures are SVG with the fonts of whoever looks at them. What differs from run to run, such as ages and the time that
something took, is replaced, so that a picture changes only if the program does. Needs nothing but Python.
"""

import re
import subprocess
import sys
from html import escape
from pathlib import Path

# File, what the window is called, and the parts of the demo in it, by their numbers.
PICTURES = [
    ("start", "a daemon on a directory of manifests", ["1", "2"]),
    ("change", "a ConfigMap changes", ["4"]),
    ("explain", "why a pod's volumes are not there", ["5"]),
]

# What a line says on every machine at every time, in place of what it said this time.
STEADY = [
    (re.compile(r"\b\d+ ms after\b"), "milliseconds after"),
    (re.compile(r"\b(for|in) \d+s\b"), r"\1 1s"),
    (re.compile(r"\bfailed \d+ times\b"), "failed 2 times"),
    # Ages, which are the last column.
    (re.compile(r"(?<= )\d+s$"), "1s"),
]

COLUMNS = 112
FONT_SIZE = 14
# A character of nearly every monospaced font is this wide; each run of text is stretched to it where one is not.
CHARACTER = FONT_SIZE * 0.6
LINE = 20
MARGIN = 18
BAR = 36

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
BACKGROUND = "#1c2128"
BAR_COLOR = "#2d333b"
FOREGROUND = "#d0d7de"
FAINT = "#8b949e"
BUTTONS = ["#f47067", "#daaa3f", "#57ab5a"]
PALETTE = [
    "#545d68", "#f47067", "#57ab5a", "#daaa3f", "#539bf5", "#b083f0", "#39c5cf", "#adbac7",
    "#768390", "#ff938a", "#6bc46d", "#e0b341", "#6cb6ff", "#dcbdfb", "#56d4dd", "#ffffff",
]  # fmt: skip

ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")


class Style:
    """How text looks at a point of the output."""

    def __init__(self):
        self.color, self.bold, self.faint = None, False, False

    def apply(self, codes):
        """Takes over what a sequence of SGR codes says; what a picture cannot show is left out."""
        codes = [int(it or 0) for it in codes.split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.__init__()
            elif code == 1:
                self.bold = True
            elif code == 2:
                self.faint = True
            elif code == 22:
                self.bold = self.faint = False
            elif 30 <= code <= 37:
                self.color = PALETTE[code - 30]
            elif 90 <= code <= 97:
                self.color = PALETTE[code - 90 + 8]
            elif code == 39:
                self.color = None
            elif code == 38 and codes[:1] == [5] and len(codes) > 1 and codes[1] < 16:
                self.color = PALETTE[codes[1]]
                del codes[:2]

    def attributes(self):
        fill = self.color or (FAINT if self.faint else None)
        return (f' fill="{fill}"' if fill else "") + (' font-weight="bold"' if self.bold else "")


def runs(line):
    """The pieces of a line that look the same: text and its attributes."""
    style, position = Style(), 0
    for found in [*ESCAPE.finditer(line), None]:
        text = line[position : found.start() if found else len(line)]
        if text:
            yield text, style.attributes()
        if found:
            style.apply(found.group(1))
            position = found.end()


def rows(lines):
    """These lines as lists of column, text and attributes. Those that are too long are broken between words, and go on
    below their first."""
    for line in lines:
        row, column = [], 0
        begin = re.match(r"\W*", ESCAPE.sub("", line)).end()
        for text, attributes in runs(line):
            while len(text) > COLUMNS - column:
                end = text.rfind(" ", 0, COLUMNS - column) + 1 or COLUMNS - column
                yield [*row, (column, text[:end], attributes)]
                row, column, text = [], begin, text[end:]
            row.append((column, text, attributes))
            column += len(text)
        yield row


def draw(title, lines):
    """A window with these lines as SVG."""
    shown = list(rows(lines))
    width = round(COLUMNS * CHARACTER + 2 * MARGIN)
    height = BAR + len(shown) * LINE + 2 * MARGIN - 6
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="{FONT}" font-size="{FONT_SIZE}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>',
        f'<path d="M0 {BAR}V10A10 10 0 0 1 10 0H{width - 10}A10 10 0 0 1 {width} 10V{BAR}Z" fill="{BAR_COLOR}"/>',
        *(f'<circle cx="{20 + 20 * at}" cy="{BAR / 2:g}" r="6" fill="{it}"/>' for at, it in enumerate(BUTTONS)),
        f'<text x="{width / 2:g}" y="{BAR / 2 + 5:g}" text-anchor="middle" fill="{FAINT}">{escape(title)}</text>',
        f'<g fill="{FOREGROUND}">',
    ]
    for number, row in enumerate(shown):
        y = BAR + MARGIN + number * LINE + FONT_SIZE - 2
        for column, text, attributes in row:
            # Columns of tables have a place of their own, whatever the font makes of the text between them.
            for found in re.finditer(r"\S+(?: \S+)*", text):
                x, length = MARGIN + (column + found.start()) * CHARACTER, len(found.group()) * CHARACTER
                place = f'x="{x:g}" y="{y}" textLength="{length:g}" lengthAdjust="spacingAndGlyphs"'
                out.append(f"<text {place}{attributes}>{escape(found.group(), quote=False)}</text>")
    return "\n".join([*out, "</g>", "</svg>", ""])


def parts(output):
    """The parts of the demo by their numbers, each without its title and the empty lines around it."""
    found, lines = {}, []
    for line in output.splitlines():
        if begin := re.match(r"(\d+)\. ", ESCAPE.sub("", line)):
            lines = found.setdefault(begin.group(1), [])
            continue
        for pattern, steady in STEADY:
            line = pattern.sub(steady, line)
        lines.append(line)
    for lines in found.values():
        while lines and not lines[-1].strip():
            lines.pop()
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: scripts/picture.py BINARY DIRECTORY")
    demo = [Path(__file__).with_name("demo.sh"), "--color", sys.argv[1]]
    told = subprocess.run(demo, stdout=subprocess.PIPE, text=True)
    if told.returncode != 0:
        sys.exit("picture: the demo failed, nothing is drawn")
    directory, found = Path(sys.argv[2]), parts(told.stdout)
    for name, title, wanted in PICTURES:
        missing = [it for it in wanted if it not in found]
        if missing:
            sys.exit(f"picture: the demo has no part {missing[0]} for {name}.svg")
        (directory / f"{name}.svg").write_text(draw(title, [line for it in wanted for line in found[it]]))


if __name__ == "__main__":
    main()
