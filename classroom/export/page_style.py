"""The look of the class page, light and dark."""

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --faint: #59636e; --paper: #fff; --panel: #f3f5f7; --rule: #c4cad1;
  --bar: #0072b2; --lost: #d55e00; --track: #e3e7eb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #9ea7b3; --paper: #111418; --panel: #1b2027;
  --rule: #454d58; --bar: #56b4e9; --lost: #f0883e; --track: #2a3038; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 2rem 1.25rem 3rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.05rem; margin: 0; }
p { margin: 0 0 .25rem; }
.faint { color: var(--faint); font-size: 13px; }
.headlines { margin: 1rem 0 1.5rem; padding: 0; list-style: none; }
.headlines li { border-left: 4px solid var(--lost); padding: .1rem 0 .1rem .75rem; margin-bottom: .5rem; }
section { background: var(--panel); border-radius: 8px; padding: 1rem 1.25rem 1.1rem; margin-bottom: 1rem;
  display: grid; grid-template-columns: 15rem 1fr; gap: .5rem 2rem; align-items: start; }
section > header { grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; }
figure { margin: 0; }
figcaption { color: var(--faint); font-size: 13px; margin-bottom: .4rem; }
.spread { display: grid; grid-template-columns: repeat(6, 1fr); gap: 4px; text-align: center; font-size: 12px; }
.spread div { display: flex; flex-direction: column; }
.spread .column { height: 76px; justify-content: flex-end; border-bottom: 1px solid var(--rule); }
.spread i { display: block; background: var(--bar); border-radius: 2px 2px 0 0; }
.spread span { line-height: 1.2; padding-top: 4px; color: var(--faint); }
.groups { width: 100%; border-collapse: collapse; }
.groups th, .groups td { padding: 2px 0 2px .75rem; text-align: left; font-weight: 400; }
.groups th:first-child { padding-left: 0; width: 50%; }
.groups thead th { color: var(--faint); font-size: 13px; padding-bottom: .4rem; }
.groups td { font-size: 13px; white-space: nowrap; }
.groups td:nth-child(3), .groups tr > :last-child { text-align: right; }
.groups td:nth-child(3) { width: 3.5rem; }
.groups tr > :last-child { width: 6rem; }
.track { background: var(--track); height: 10px; border-radius: 2px; }
.track i { display: block; height: 100%; background: var(--bar); border-radius: 2px; }
.worst th { font-weight: 600; }
.worst .track i { background: var(--lost); }
.wide { overflow-x: auto; }
.names { border-collapse: collapse; width: 100%; }
.names th, .names td { text-align: right; padding: 4px 10px; border-bottom: 1px solid var(--rule); }
.names tr > :first-child { text-align: left; overflow-wrap: anywhere; min-width: 9rem; }
.names th { font-weight: 400; }
.names thead th { color: var(--faint); font-size: 13px; }
@media (max-width: 44rem) { section { grid-template-columns: 1fr; } .groups th:first-child { width: 40%; } }
@media (forced-colors: active) { .spread i, .track i { background: CanvasText; } }
"""
