// The style sheet of the HTML report: light and dark, for screen and print.
#pragma once

#include <string_view>

namespace jfa::tool {

inline constexpr std::string_view kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --edge: rgba(11, 11, 11, .10);
  --ink: #14140f; --ink-2: #52514e; --ink-3: #85847e;
  --grid: #e4e3de; --axis: #bdbcb4;
  --jagged: #2a78d6; --padded: #eb6834; --padding: #e9e8e3;
  --good: #0b7a0b; --bad: #c42f2f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e0e0d; --card: #191918; --edge: rgba(255, 255, 255, .10);
    --ink: #f5f5f2; --ink-2: #c3c2b7; --ink-3: #8d8c86;
    --grid: #2b2b29; --axis: #45453f;
    --jagged: #3987e5; --padded: #d95926; --padding: #2c2c2a;
    --good: #35b535; --bad: #ef6a6a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 40px 20px 64px; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
}
main { max-width: 940px; margin: 0 auto; }
h1 { font-size: 27px; line-height: 1.25; font-weight: 650; letter-spacing: -.01em; margin: 0 0 6px; }
h2 { font-size: 17px; font-weight: 650; margin: 0 0 2px; }
p { margin: 0; color: var(--ink-2); max-width: 70ch; }
header { margin-bottom: 28px; }
code { font: 13px/1.5 ui-monospace, "SF Mono", "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px; margin-bottom: 14px; }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: 12px; padding: 20px 22px; }
section.card { margin-bottom: 14px; }
.tile .label { color: var(--ink-2); font-size: 13px; }
.tile .value { font-size: 34px; line-height: 1.2; font-weight: 600; letter-spacing: -.02em; margin: 4px 0 2px; }
.tile .note { color: var(--ink-3); font-size: 12.5px; }
svg { display: block; width: 100%; height: auto; margin-top: 14px; overflow: visible; }
svg text { font-size: 12px; fill: var(--ink-2); font-variant-numeric: tabular-nums; }
svg text.muted { fill: var(--ink-3); }
svg text.strong { fill: var(--ink); font-weight: 600; }
svg line.grid { stroke: var(--grid); stroke-width: 1; }
svg line.axis { stroke: var(--axis); stroke-width: 1; }
svg line.mark { stroke: var(--ink-3); stroke-width: 1; stroke-dasharray: 2 3; }
svg .jagged { fill: var(--jagged); }
svg .padded { fill: var(--padded); }
svg .padding { fill: var(--padding); }
svg path:hover, svg rect:hover { filter: brightness(1.12); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 18px; margin-top: 12px; font-size: 13px; color: var(--ink-2); }
.legend span::before {
  content: ""; display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 7px;
  background: var(--key);
}
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin-top: 12px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 7px 10px; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { color: var(--ink-3); font-weight: 500; font-size: 12.5px; }
tr:last-child td { border-bottom: 0; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
.good { color: var(--good); } .bad { color: var(--bad); }
ul { margin: 8px 0 0; padding-left: 18px; color: var(--ink-2); max-width: 78ch; }
li { margin: 4px 0; }
footer { color: var(--ink-3); font-size: 12.5px; margin-top: 22px; }
@media print { body { background: #fff; padding: 0; } .card { break-inside: avoid; } }
)css";

}  // namespace jfa::tool
