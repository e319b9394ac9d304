"use strict";
// Where the time goes: bars by node, layer, kind or type, and a flame graph of layers, nodes and kinds.

VIEWS.push({ id: "profile", title: "Profile", build(panel) {
  const times = DATA.profile;
  if (!times) { panel.append(notice(DATA.programs ? "This page was made without a profile." : NO_REQUEST)); return () => {}; }
  const layerName = (name) => { const layer = layerOf(name); return layer < 0 ? name || "(no node)" : NETWORK.layers[layer].name; };
  const KEYS = { node: (each) => each[2] || "(no node)", layer: (each) => layerName(each[2]), kind: (each) => each[0], type: (each) => each[1] || "(none)" };
  const total = times.reduce((sum, each) => sum + each[3], 0);
  let by = "node";

  const choose = el("select", { "aria-label": "bars by", change: () => { by = choose.value; bars(); } },
    ...Object.keys(KEYS).map((name) => el("option", { value: name }, `by ${name}`)));
  const table = el("table", { class: "bars" });
  const flame = svg("svg", { class: "flame", viewBox: "0 0 1000 100", role: "group", "aria-label": "flame graph" });
  const said = el("p", { class: "said", role: "status" }, "Point at a part of the flame graph; Enter or a click enlarges it.");
  panel.append(el("div", { class: "bar" }, choose, el("span", {}, `${(total / 1e3).toFixed(3)} ms in ${count(times.length)} commands`)),
    el("div", { class: "wide" }, flame), said, el("div", { class: "scroll" }, table));

  function bars() {
    const sums = new Map();
    for (const each of times) {
      const name = KEYS[by](each), row = sums.get(name) || [0, 0, 0];
      sums.set(name, [row[0] + each[3], row[1] + each[4], row[2] + each[5]]);
    }
    const rows = [...sums].sort((a, b) => b[1][0] - a[1][0]), most = rows.length ? rows[0][1][0] : 1;
    table.replaceChildren(el("thead", {}, el("tr", {}, ...[by, "", "ms", "%", "calls", "MB"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...rows.slice(0, 500).map(([name, [time, calls, size]]) => el("tr", {},
        el("th", { scope: "row" }, by === "node" && nodeOf(name) >= 0 ? el("a", { href: `#network/${encodeURIComponent(name)}` }, name) : name),
        el("td", {}, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "share", "aria-hidden": "true" },
          svg("rect", { width: (100 * time) / Math.max(most, 1e-9), height: 10 }))),
        ...[(time / 1e3).toFixed(3), ((100 * time) / Math.max(total, 1e-9)).toFixed(1), count(calls), (size / 1e6).toFixed(2)].map((text) => el("td", {}, text))))));
  }

  function tree() {
    const root = { name: "all", time: 0, parts: new Map() };
    for (const each of times) {
      let at = root;
      root.time += each[3];
      for (const name of [KEYS.layer(each), KEYS.node(each), KEYS.kind(each)]) {
        if (!at.parts.has(name)) at.parts.set(name, { name, time: 0, parts: new Map(), above: at });
        at = at.parts.get(name);
        at.time += each[3];
      }
    }
    return root;
  }
  const root = tree();
  function burn(top) {
    flame.replaceChildren();
    const ROW = 24;
    let depth = 0;
    const put = (part, left, width, level) => {
      depth = Math.max(depth, level);
      const share = `${part.name}: ${(part.time / 1e3).toFixed(3)} ms, ${((100 * part.time) / Math.max(total, 1e-9)).toFixed(1)} %`;
      const shown = Math.floor(width / 7);
      const enlarge = () => burn(part === top && part.above ? part.above : part);
      flame.append(svg("g", { tabindex: 0, role: "button", "aria-label": share, click: enlarge,
        keydown: (event) => { if (event.key === "Enter") enlarge(); }, focus: () => { said.textContent = share; },
        mouseenter: () => { said.textContent = share; } },
      svg("rect", { x: left, y: level * ROW, width: Math.max(0.5, width - 1), height: ROW - 2, fill: colour(part.name.length * 7 + part.name.charCodeAt(0)) }),
      shown > 2 ? svg("text", { x: left + 4, y: level * ROW + 15 }, part.name.length > shown ? `${part.name.slice(0, shown - 1)}…` : part.name) : null));
      let at = left;
      for (const each of [...part.parts.values()].sort((a, b) => b.time - a.time)) {
        const size = (width * each.time) / Math.max(part.time, 1e-9);
        if (size > 0.7) put(each, at, size, level + 1);
        at += size;
      }
    };
    put(top, 0, 1000, 0);
    flame.setAttribute("viewBox", `0 0 1000 ${(depth + 1) * ROW}`);
  }
  bars();
  burn(root);
  return () => {};
} });
