"use strict";
// The network as layers, which open to nodes; what each is; numbers of its components.

VIEWS.push({ id: "network", title: "Network", build(panel) {
  const MOST = 150;  // boxes that are drawn at once
  const layers = NETWORK.layers, opened = new Set();
  const nodesOf = layers.map(() => []);
  NETWORK.nodes.forEach((node, number) => nodesOf[node.layer].push(number));
  const near = layers.map(() => new Set());
  for (const [a, b] of NETWORK.arcs) {
    near[NETWORK.nodes[a].layer].add(NETWORK.nodes[b].layer);
    near[NETWORK.nodes[b].layer].add(NETWORK.nodes[a].layer);
  }
  const words = layers.map((layer, number) => [layer.name, ...nodesOf[number].flatMap((k) => {
    const node = NETWORK.nodes[k], component = NETWORK.components[node.component];
    return [node.name, node.kind, component ? `${component.name} ${component.type}` : ""];
  })].join(" ").toLowerCase());
  const lastOf = (number) => NETWORK.nodes[nodesOf[number][nodesOf[number].length - 1]].name;  // names a layer in the address
  let chosen = 0;

  const found = el("p", { class: "found", role: "status" });
  const search = el("input", { type: "search", placeholder: "search layers, nodes, types", "aria-label": "search the network",
    input: () => filter(), keydown: (event) => { if (event.key === "Enter") list.select(0); } });
  const list = new RowList("layers", 24, (row, number) => {
    row.append(el("span", { class: `dot k-${layers[number].kind}` }), layers[number].name);
  }, (number) => go("network", lastOf(number)));
  const picture = el("div", { class: "picture", tabindex: 0, "aria-label": "picture of the network" });
  const details = el("div", { class: "details", "aria-live": "polite" });
  panel.append(el("div", { class: "side" }, search, found, list.box), picture, details);

  function filter() {
    const asked = search.value.trim().toLowerCase();
    const numbers = layers.map((_, number) => number).filter((number) => words[number].includes(asked));
    found.textContent = asked ? `${count(numbers.length)} of ${count(layers.length)} layers` : `${count(layers.length)} layers`;
    list.set(numbers);
  }

  // The layers to draw: all, or those round the chosen one.
  function drawn() {
    const total = layers.reduce((sum, _, number) => sum + (opened.has(number) ? nodesOf[number].length : 1), 0);
    if (total <= MOST) return new Set(layers.keys());
    const seen = new Set([chosen]);
    for (const number of seen) {
      for (const other of near[number]) if (seen.size < 30) seen.add(other);
      if (seen.size >= 30) break;
    }
    return seen;
  }

  function boxes(visible) {
    const made = new Map();
    for (const number of visible) {
      if (opened.has(number) && nodesOf[number].length > 1) {
        for (const k of nodesOf[number]) made.set(`n${k}`, { layer: number, lines: nodeLines(k), kind: layers[number].kind });
      } else made.set(`l${number}`, { layer: number, lines: layerLines(number), kind: layers[number].kind });
    }
    return made;
  }
  function nodeLines(k) {
    const node = NETWORK.nodes[k], component = NETWORK.components[node.component];
    return [node.name, component ? `${component.type.replace(/Component$/, "")}, ${node.dim}` : `${node.kind}, ${node.dim}`];
  }
  function layerLines(number) {
    const members = nodesOf[number];
    const types = members.map((k) => {
      const component = NETWORK.components[NETWORK.nodes[k].component];
      return (component && component.type !== NETWORK.nodes[k].kind ? component.type : NETWORK.nodes[k].kind).replace(/Component$/, "");
    });
    const last = NETWORK.nodes[members[members.length - 1]];
    const short = types.length > 3 ? `${types.slice(0, 3).join(", ")}, …` : types.join(", ");
    return [layers[number].name, `${short}: ${last.dim}`];
  }
  const clip = (text) => (text.length > 44 ? `${text.slice(0, 42)}…` : text);

  function draw() {
    const visible = drawn(), made = boxes(visible), graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 34, marginx: 12, marginy: 12 });
    for (const [id, box] of made) {
      graph.setNode(id, { width: 20 + 7.2 * Math.max(...box.lines.map((line) => clip(line).length)), height: 40 });
    }
    const where = (k) => (made.has(`n${k}`) ? `n${k}` : `l${NETWORK.nodes[k].layer}`);
    for (const [a, b, label] of NETWORK.arcs) {
      const from = where(a), to = where(b);
      if (!made.has(from) || !made.has(to) || (from === to && !label)) continue;
      const before = graph.edge(from, to), texts = before ? before.texts.add(label) : new Set([label]);
      const text = clip([...texts].filter(Boolean).join("; "));
      graph.setEdge(from, to, { texts, text, width: 6.5 * text.length, height: text ? 16 : 1, labelpos: "c" });
    }
    dagre.layout(graph);
    const { width, height } = graph.graph();
    const canvas = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "layers" },
      svg("defs", {}, svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
        svg("path", { d: "M0 0L8 4L0 8z", class: "head" }))));
    for (const edge of graph.edges()) {
      const { points, text, x, y } = graph.edge(edge);
      canvas.append(svg("path", { class: "arc", "marker-end": "url(#head)", d: `M${points.map((p) => `${p.x} ${p.y}`).join("L")}` }));
      if (text) canvas.append(svg("text", { class: "label", x, y: y + 4, "text-anchor": "middle" }, text));
    }
    let centre = null;
    for (const [id, box] of made) {
      const { x, y, width: w, height: h } = graph.node(id);
      if (box.layer === chosen) centre = centre || { x, y };
      const group = svg("g", { class: `box k-${box.kind}${box.layer === chosen ? " chosen" : ""}`, tabindex: 0, role: "button",
        "aria-label": box.lines.join(", "), transform: `translate(${x - w / 2} ${y - h / 2})`,
        click: (event) => (event.detail === 2 ? toggle(box.layer) : go("network", lastOf(box.layer))),
        keydown: (event) => {
          if (event.key === "Enter") go("network", lastOf(box.layer));
          if (event.key === "o") toggle(box.layer);
        } },
      svg("rect", { width: w, height: h, rx: 6 }), svg("title", {}, box.lines.join("\n")),
      ...box.lines.map((line, row) => svg("text", { x: w / 2, y: 17 + 15 * row, "text-anchor": "middle", class: `line${row}` }, clip(line))));
      canvas.append(group);
    }
    const focused = picture.contains(document.activeElement) && document.activeElement !== picture;
    picture.replaceChildren(canvas);
    if (focused) picture.querySelector(".chosen").focus();
    if (visible.size < layers.length) {
      picture.prepend(notice(`${visible.size} of ${count(layers.length)} layers: those round ${layers[chosen].name}`));
    }
    if (centre) picture.scrollTo(centre.x - picture.clientWidth / 2, centre.y - picture.clientHeight / 2);
  }

  function toggle(number) {
    if (!opened.delete(number)) opened.add(number);
    chosen = number;
    draw();
    describe();
  }

  function describe() {
    const members = nodesOf[chosen], parts = [el("h2", {}, layers[chosen].name)];
    const actions = el("p", { class: "actions" });
    if (members.length > 1) actions.append(button(opened.has(chosen) ? "Close" : "Open into nodes", () => toggle(chosen), { id: "open" }));
    if (DATA.graph && DATA.graph.first) actions.append(button("In time", () => go("time", lastOf(chosen))));
    if (DATA.programs) actions.append(button("Its commands", () => go("program", `node:${lastOf(chosen)}`)));
    if (actions.childNodes.length) parts.push(actions);
    for (const k of members) {
      const node = NETWORK.nodes[k];
      parts.push(el("h3", {}, node.name), el("p", {}, `${node.kind}, dim ${node.dim}${node.objective ? `, ${node.objective}` : ""}`));
      if (node.takes) parts.push(el("p", { class: "code" }, node.takes));
      if (node.context && node.kind !== "input") parts.push(el("p", {}, `at t needs input from ${frame(node.context[0])} to ${frame(node.context[1])}`));
      const component = NETWORK.components[node.component];
      if (component) parts.push(...described(component));
    }
    details.replaceChildren(...parts);
  }
  const frame = (offset) => (offset === 0 ? "t" : `t ${offset < 0 ? "−" : "+"} ${count(Math.abs(offset))}`);
  function described(component) {
    const shared = NETWORK.nodes.filter((node) => node.component !== undefined && NETWORK.components[node.component] === component).length;
    const parts = [el("p", {}, `${component.type}, ${component.in} → ${component.out}`
      + `${component.parameters ? `, ${count(component.parameters)} parameters` : ""}${shared > 1 ? `, used by ${shared} nodes` : ""}`)];
    if (component.notes.length) parts.push(el("p", {}, component.notes.join("; ")));
    for (const each of component.histograms) parts.push(histogram(each));
    return parts;
  }

  filter();
  return (name) => {
    if (name !== undefined && nodeOf(name) >= 0) chosen = NETWORK.nodes[nodeOf(name)].layer;
    const place = list.items.indexOf(chosen);
    if (place >= 0) list.mark(place);
    draw();
    describe();
  };
} });
