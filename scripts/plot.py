"""Draws figures as SVG with nothing but the standard library: panels beside each other, lines with points or groups
of bars, their spread, linear or logarithmic axes, one legend. For scripts that print measurements; see scripts/bench
--figures.

  figure(path, [Panel("tcp", "requesters", "time, us", [Series("direct", [Point(1, 5.2, 4.9, 6.0), ...]), ...],
                      log_x=2, log_y=10)])
"""

import dataclasses
import html
import math
import pathlib

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart; and shapes besides.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
SHAPES = ["circle", "square", "triangle", "diamond", "cross"]

PANEL_WIDTH, PANEL_HEIGHT = 400, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 16, 34, 48
LEGEND_LINE = 20
FONT = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'


@dataclasses.dataclass
class Point:
    x: float
    y: float
    low: float = None  # of the spread
    high: float = None


@dataclasses.dataclass
class Series:
    name: str
    points: list


@dataclasses.dataclass
class Panel:
    title: str
    x_label: str
    y_label: str
    series: list
    log_x: int = 0  # the base of its ticks; 0: linear
    log_y: int = 0
    categories: list = None  # then bars: x is an index into it


def shorten(value, base=10):
    """A tick's text: 1500 as 1.5k, 0.002 as 2e-03; of powers of two 4096 as 4Ki."""
    if base in (2, 4, 8, 16) and value >= 1024:
        return f"{value / 1024 ** 2:g}Mi" if value >= 1024 ** 2 else f"{value / 1024:g}Ki"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}" if value == 0 or abs(value) >= 0.01 else f"{value:.0e}"


class Axis:
    """Maps values of an interval that holds all of them to pixels, and knows where ticks go."""

    def __init__(self, values, base, first_pixel, last_pixel, exact=False):
        self.base, self.first_pixel, self.last_pixel = base, first_pixel, last_pixel
        if base:
            low = min(value for value in values if value > 0)
            high = max(values)
            low_power = math.floor(math.log(low, base) + 1e-9)
            high_power = max(math.ceil(math.log(high, base) - 1e-9), low_power + 1)
            self.ticks = [float(base) ** power for power in range(low_power, high_power + 1)]
            self.low, self.high = (low, high) if exact else (self.ticks[0], self.ticks[-1])
            self.ticks = [tick for tick in self.ticks if self.low * 0.999 <= tick <= self.high * 1.001]
            while len(self.ticks) > 9:
                self.ticks = self.ticks[::2]
        else:
            step = 10 ** math.floor(math.log10(max(max(values), 1e-12)))
            step = next(step * part for part in (0.1, 0.2, 0.5, 1, 2) if max(values) <= 6 * step * part)
            self.ticks = [step * i for i in range(math.ceil(max(values) / step) + 1)]
            self.low, self.high = 0.0, self.ticks[-1]

    def pixel(self, value):
        if self.base:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.first_pixel + share * (self.last_pixel - self.first_pixel)


def mark(shape, x, y, colour):
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    if shape == "square":
        return f'<rect x="{x - 3.6:.1f}" y="{y - 3.6:.1f}" width="7.2" height="7.2" fill="{colour}"/>'
    if shape == "cross":
        return (f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke="{colour}" stroke-width="2" fill="none"/>')
    corners = {"triangle": [(0, -5), (4.6, 3.6), (-4.6, 3.6)], "diamond": [(0, -5), (5, 0), (0, 5), (-5, 0)]}[shape]
    return f'<polygon points="{" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)}" fill="{colour}"/>'


def text(x, y, words, anchor="middle", size=12, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#222" {FONT} '
            f'{extra}>{html.escape(words)}</text>')


def draw_bars(panel, names, x0, x1, y_axis):
    """A group of bars a category, one a series; from 0, on a logarithmic axis from 1, up or down."""
    base = y_axis.pixel(1) if y_axis.base else y_axis.first_pixel
    group = (x1 - x0) / len(panel.categories)
    width = group * 0.84 / len(panel.series)
    out = []
    for number, category in enumerate(panel.categories):
        out.append(text(x0 + (number + 0.5) * group, y_axis.first_pixel + 18, category, size=11))
    for number, series in enumerate(panel.series):
        colour = COLOURS[names.index(series.name) % len(COLOURS)]
        for point in series.points:
            left = x0 + (point.x + 0.08) * group + number * width
            end = y_axis.pixel(point.y)
            out.append(f'<rect x="{left:.1f}" y="{min(base, end):.1f}" width="{width * 0.9:.1f}" '
                       f'height="{max(abs(base - end), 1):.1f}" fill="{colour}"/>')
            if point.low is not None:
                middle = left + width * 0.45
                out.append(f'<line x1="{middle:.1f}" y1="{y_axis.pixel(point.low):.1f}" x2="{middle:.1f}" '
                           f'y2="{y_axis.pixel(point.high):.1f}" stroke="#222" stroke-width="1"/>')
    return out


def draw_panel(panel, left, names):
    points = [point for series in panel.series for point in series.points]
    x0, x1 = left + LEFT, left + PANEL_WIDTH - RIGHT
    y0, y1 = TOP + PANEL_HEIGHT - BOTTOM, TOP
    y_axis = Axis([each for point in points for each in (point.y, point.low, point.high) if each is not None],
                  panel.log_y, y0, y1)
    out = [text((x0 + x1) / 2, TOP - 12, panel.title, size=14, extra='font-weight="bold"')]
    for tick in y_axis.ticks:
        y = y_axis.pixel(tick)
        out.append(f'<line x1="{x0}" y1="{y:.1f}" x2="{x1}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(text(x0 - 6, y + 4, shorten(tick), "end"))
    out.append(f'<path d="M{x0} {y1}V{y0}H{x1}" stroke="#222" fill="none"/>')
    out.append(text((x0 + x1) / 2, y0 + 38, panel.x_label, size=13))
    middle = (y0 + y1) / 2
    out.append(text(left + 16, middle, panel.y_label, size=13, extra=f'transform="rotate(-90 {left + 16} {middle})"'))
    if panel.categories:
        return out + draw_bars(panel, names, x0, x1, y_axis)
    x_axis = Axis([point.x for point in points], panel.log_x, x0 + 10, x1 - 10, exact=True)
    for tick in x_axis.ticks if panel.log_x else sorted({point.x for point in points}):
        x = x_axis.pixel(tick)
        out.append(f'<line x1="{x:.1f}" y1="{y0}" x2="{x:.1f}" y2="{y0 + 5}" stroke="#222"/>')
        out.append(text(x, y0 + 18, shorten(tick, panel.log_x)))
    for series in panel.series:
        which = names.index(series.name)
        colour, shape = COLOURS[which % len(COLOURS)], SHAPES[which % len(SHAPES)]
        places = [(x_axis.pixel(point.x), y_axis.pixel(point.y)) for point in series.points]
        for point, (x, _) in zip(series.points, places):
            if point.low is not None:
                out.append(f'<line x1="{x:.1f}" y1="{y_axis.pixel(point.low):.1f}" x2="{x:.1f}" '
                           f'y2="{y_axis.pixel(point.high):.1f}" stroke="{colour}" stroke-width="1" opacity="0.6"/>')
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [mark(shape, x, y, colour) for x, y in places]
    return out


def figure(path, panels):
    """Writes the panels, beside each other, with one legend below."""
    names = []
    for panel in panels:
        names += [series.name for series in panel.series if series.name not in names]
    width = PANEL_WIDTH * len(panels)
    per_line = max(1, width // 220)
    stroke = 8 if any(panel.categories for panel in panels) else 2  # as the bars
    height = TOP + PANEL_HEIGHT + LEGEND_LINE * math.ceil(len(names) / per_line) + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for number, panel in enumerate(panels):
        out += draw_panel(panel, number * PANEL_WIDTH, names)
    for which, name in enumerate(names):
        x = LEFT + which % per_line * 220
        y = TOP + PANEL_HEIGHT + 10 + which // per_line * LEGEND_LINE
        colour = COLOURS[which % len(COLOURS)]
        out.append(f'<line x1="{x - 14}" y1="{y}" x2="{x + 14}" y2="{y}" stroke="{colour}" stroke-width="{stroke}"/>')
        if not any(panel.categories for panel in panels):
            out.append(mark(SHAPES[which % len(SHAPES)], x, y, colour))
        out.append(text(x + 22, y + 4, name, "start", 13))
    pathlib.Path(path).write_text("\n".join(out) + "\n</svg>\n")
