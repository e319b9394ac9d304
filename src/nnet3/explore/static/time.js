"use strict";
// The graph unrolled in time: a row for each node, a column for each frame; what a value depends on is lit.

VIEWS.push({ id: "time", title: "Time", build(panel) {
  const graph = DATA.graph;
  if (!graph) { panel.append(notice(NO_REQUEST)); return () => {}; }
  if (!graph.first) {
    panel.append(notice(`The graph has ${count(graph.counts.cindexes)} values, too many to draw: ask for fewer frames.`));
    return () => {};
  }
  const CELL = 20, ROW = 20, LABEL = 230, HEAD = 24, NEVER = -1e9;
  const nodes = [];
  for (let k = graph.names.length - 1; k >= 0; k--) if (graph.first[k] < graph.first[k + 1]) nodes.push(k);
  const sequences = [...new Set(graph.indexes.map((index) => index[0]))].sort((a, b) => a - b);
  const times = [...new Set(graph.indexes.map((index) => index[1]).filter((t) => t > NEVER))].sort((a, b) => a - b);
  const columnOf = new Map(times.map((t, column) => [t, column]));
  const nodeOfCell = new Int32Array(graph.indexes.length);
  for (const k of nodes) nodeOfCell.fill(k, graph.first[k], graph.first[k + 1]);
  let sequence = sequences[0], cells = [], at = { row: 0, column: 0 }, lit = null, by = "epoch";

  const chooseBy = el("select", { "aria-label": "colour by", change: () => { by = chooseBy.value; draw(); } },
    el("option", { value: "epoch" }, "colour by epoch"), el("option", { value: "step" }, "colour by step"));
  const chooseSequence = el("select", { "aria-label": "sequence", change: () => { sequence = Number(chooseSequence.value); collect(); draw(); } },
    ...sequences.map((n) => el("option", { value: n }, `sequence ${n}`)));
  const said = el("p", { class: "said", role: "status" }, "Point at a value, or use the arrow keys.");
  const canvas = el("canvas", { "aria-hidden": "true" });
  const spacer = el("div", { class: "spacer" }, canvas);
  const frame = el("div", { class: "frame", tabindex: 0, role: "application", "aria-label": "values by node and time",
    scroll: () => draw(), mousemove: (event) => point(event), keydown: (event) => key(event) }, spacer);
  const numbers = graph.counts;
  panel.append(el("div", { class: "bar" }, chooseBy, sequences.length > 1 ? chooseSequence : null,
    el("span", {}, `${count(numbers.cindexes)} values, ${count(numbers.dependencies)} dependencies, ${count(numbers.steps)} steps in `
      + `${count(numbers.epochs)} epochs${numbers.sequences > 1 ? `; each stands for ${numbers.sequences} sequences` : ""}`)), said, frame);
  spacer.style.width = `${LABEL + CELL * Math.max(1, times.length) + 20}px`;
  spacer.style.height = `${HEAD + ROW * nodes.length + 20}px`;
  new ResizeObserver(() => draw()).observe(frame);

  function collect() {
    cells = nodes.map((k) => {
      const row = new Map();
      for (let i = graph.first[k]; i < graph.first[k + 1]; i++) {
        const [n, t] = graph.indexes[i];
        if (t <= NEVER) row.set(0, i);
        else if (n === sequence && !row.has(columnOf.get(t))) row.set(columnOf.get(t), i);
      }
      return row;
    });
  }
  function below(cell) {
    const seen = new Set([cell]);
    for (const i of seen) for (let k = graph.start[i]; k < graph.start[i + 1]; k++) seen.add(graph.used[k]);
    return seen;
  }
  function look(row, column) {
    at = { row, column };
    const cell = cells[row] && cells[row].get(column);
    lit = cell === undefined ? null : below(cell);
    said.textContent = cell === undefined ? `${graph.names[nodes[row]] || ""}: no value there` : describe(cell);
    draw();
  }
  function describe(cell) {
    const [, t] = graph.indexes[cell], step = graph.step[cell], name = graph.names[nodeOfCell[cell]];
    const inputs = new Map();
    for (const i of lit) {
      if (graph.step[i] !== -1 || i === cell) continue;
      const from = graph.names[nodeOfCell[i]], time = graph.indexes[i][1];
      const range = inputs.get(from) || [time, time];
      inputs.set(from, [Math.min(range[0], time), Math.max(range[1], time)]);
    }
    const texts = [...inputs].map(([from, [first, last]]) => `${from}${first <= NEVER ? "" : ` t=${first}${first === last ? "" : `..${last}`}`}`);
    const when = step === -1 ? "given" : step < 0 ? "a view of other columns" : `step ${step}, epoch ${graph.epoch[step]}${graph.recurrent[graph.epoch[step]] ? " (recurrent)" : ""}`;
    return `${name}${t <= NEVER ? "" : ` t=${t}`}: ${when}; computed from ${count(lit.size - 1)} values${texts.length ? `: ${texts.join(", ")}` : ""}`;
  }
  function draw() {
    const width = frame.clientWidth, height = frame.clientHeight;
    if (!width || !height) return;
    const scale = window.devicePixelRatio || 1, style = getComputedStyle(panel), ink = style.color;
    const faint = style.getPropertyValue("--line");
    canvas.width = width * scale; canvas.height = height * scale;
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    canvas.style.transform = `translate(${frame.scrollLeft}px, ${frame.scrollTop}px)`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle";
    const left = frame.scrollLeft, top = frame.scrollTop;
    const firstRow = Math.max(0, Math.floor(top / ROW)), lastRow = Math.min(nodes.length, firstRow + Math.ceil(height / ROW) + 1);
    const firstColumn = Math.max(0, Math.floor(left / CELL)), lastColumn = Math.min(times.length || 1, firstColumn + Math.ceil(width / CELL) + 1);
    for (let row = firstRow; row < lastRow; row++) {
      const y = HEAD + row * ROW - top;
      if (y < HEAD - ROW / 2) continue;
      for (let column = firstColumn; column < lastColumn; column++) {
        const x = LABEL + column * CELL - left, cell = cells[row].get(column);
        if (x < LABEL - CELL / 2) continue;
        if (cell === undefined) { pen.fillStyle = faint; pen.fillRect(x + CELL / 2 - 1, y + ROW / 2 - 1, 2, 2); continue; }
        const step = graph.step[cell];
        pen.globalAlpha = lit && !lit.has(cell) ? 0.15 : 1;
        pen.fillStyle = step < 0 ? "#888" : colour(by === "epoch" ? graph.epoch[step] : step);
        pen.fillRect(x + 2, y + 2, CELL - 4, ROW - 4);
        if (step === -1) { pen.strokeStyle = ink; pen.strokeRect(x + 2.5, y + 2.5, CELL - 5, ROW - 5); }
        pen.globalAlpha = 1;
        if (row === at.row && column === at.column) { pen.strokeStyle = ink; pen.lineWidth = 2; pen.strokeRect(x + 1, y + 1, CELL - 2, ROW - 2); pen.lineWidth = 1; }
      }
      pen.fillStyle = ink;
      pen.textAlign = "right";
      const name = graph.names[nodes[row]];
      pen.fillText(name.length > 34 ? `${name.slice(0, 33)}…` : name, LABEL - 8, y + ROW / 2);
    }
    pen.textAlign = "center"; pen.fillStyle = ink;
    const every = Math.max(1, Math.ceil(30 / CELL) * (times.some((t) => Math.abs(t) > 99) ? 2 : 1));
    for (let column = firstColumn; column < lastColumn; column++) {
      const x = LABEL + column * CELL - left;
      if (x >= LABEL - 2 && column % every === 0 && times.length) pen.fillText(String(times[column]), x + CELL / 2, HEAD / 2);
    }
  }
  function point(event) {
    const box = frame.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left + frame.scrollLeft - LABEL) / CELL);
    const row = Math.floor((event.clientY - box.top + frame.scrollTop - HEAD) / ROW);
    if (row < 0 || row >= nodes.length || (row === at.row && column === at.column && lit)) return;
    if (cells[row].has(column)) look(row, column);
  }
  function key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [down, right] = moves[event.key];
    const row = Math.min(nodes.length - 1, Math.max(0, at.row + down));
    const column = Math.min(Math.max(times.length - 1, 0), Math.max(0, at.column + right));
    const x = column * CELL, y = row * ROW;
    if (x < frame.scrollLeft || x > frame.scrollLeft + frame.clientWidth - LABEL - CELL) frame.scrollLeft = Math.max(0, x - 100);
    if (y < frame.scrollTop || y > frame.scrollTop + frame.clientHeight - HEAD - ROW) frame.scrollTop = Math.max(0, y - 100);
    look(row, column);
  }
  collect();
  at.column = cells[0] && cells[0].size ? Math.min(...cells[0].keys()) : 0;
  return (name) => {
    if (name !== undefined) {
      const row = nodes.findIndex((k) => graph.names[k] === name);
      if (row >= 0) { frame.scrollTop = Math.max(0, row * ROW - 60); look(row, Math.min(...cells[row].keys())); }
    }
    draw();
  };
} });
