"use strict";
// Memory: a rectangle for each matrix, from the command that makes it to the one that ends it, where it lies.

VIEWS.push({ id: "memory", title: "Memory", build(panel) {
  const memory = DATA.memory;
  if (!memory) { panel.append(notice(NO_REQUEST)); return () => {}; }
  const MOST = 4000, WIDTH = 1000, HEIGHT = 460, LEFT = 70, BOTTOM = 24;
  const program = DATA.programs[DATA.programs.length - 1];
  const commands = program.count;
  let stage = DATA.programs.length - 1;
  while (!DATA.programs[stage].commands) stage--;
  const { matrices, commands: records } = DATA.programs[stage];
  const blocks = [...memory.blocks].sort((a, b) => b[4] - a[4]).slice(0, MOST).filter((block) => block[4] > 0);
  const x = (command) => LEFT + ((WIDTH - LEFT) * command) / Math.max(1, commands);
  const y = (byte) => (HEIGHT - BOTTOM) * (1 - byte / Math.max(1, memory.bytes));
  const nodeOfMatrix = new Map();
  for (const [, , node, used] of records) for (const matrix of used) if (!nodeOfMatrix.has(matrix)) nodeOfMatrix.set(matrix, DATA.texts[node]);

  const said = el("p", { class: "said", role: "status" }, "Point at a rectangle, or use the arrow keys.");
  const rects = blocks.map((block, place) => {
    const [matrix, first, last, offset, size] = block;
    const layer = layerOf(nodeOfMatrix.get(Math.abs(matrix)) || "");
    const rect = svg("rect", { x: x(first), y: y(offset + size), width: Math.max(1, x(last + 1) - x(first)),
      height: Math.max(0.5, y(offset) - y(offset + size)), class: matrix === 0 ? "scratch" : "block",
      mouseenter: () => look(place), click: () => go("program", matrix === 0 ? `c${first}` : `m${Math.abs(matrix)}`) });
    if (matrix !== 0) rect.setAttribute("fill", colour(layer < 0 ? 0 : layer));
    return rect;
  });
  const peakX = x(memory.peak.command + 0.5);
  const peakText = `peak: ${bytes(memory.peak.bytes)} in use at c${memory.peak.command}, arena of ${bytes(memory.bytes)}`;
  const ticks = [0, 0.25, 0.5, 0.75, 1].flatMap((part) => [
    svg("text", { class: "tick", x: LEFT - 6, y: y(memory.bytes * part) + (part === 1 ? 10 : 0), "text-anchor": "end" }, bytes(Math.round(memory.bytes * part))),
    svg("text", { class: "tick", x: x(commands * part), y: HEIGHT - 6, "text-anchor": part === 1 ? "end" : "middle" }, `c${Math.round(commands * part)}`)]);
  const picture = svg("svg", { class: "arena", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: 0, role: "application",
    "aria-label": `memory over commands; ${peakText}`, keydown: (event) => key(event) }, ...rects,
  svg("line", { class: "peak", x1: peakX, x2: peakX, y1: 0, y2: HEIGHT - BOTTOM }), ...ticks);
  panel.append(el("div", { class: "bar" }, el("span", { id: "peak" }, peakText),
    memory.blocks.length > MOST ? el("span", {}, `the ${count(MOST)} largest of ${count(memory.blocks.length)} blocks`) : null), said,
    el("div", { class: "wide filling" }, picture));
  let at = -1;

  function look(place) {
    if (at >= 0) rects[at].classList.remove("chosen");
    at = place;
    const [matrix, first, last, offset, size] = blocks[place];
    rects[place].classList.add("chosen");
    const name = matrix === 0 ? "scratch memory" : `${matrix < 0 ? "compressed form of " : ""}${DATA.texts[matrices[Math.abs(matrix)]] || `m${Math.abs(matrix)}`}`;
    said.textContent = `${name}: ${bytes(size)} at byte ${count(offset)}, c${first} to c${last}`;
  }
  function key(event) {
    if (event.key === "Enter" && at >= 0) rects[at].dispatchEvent(new MouseEvent("click"));
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!move || !blocks.length) return;
    event.preventDefault();
    look((Math.max(at, 0) + (at < 0 ? 0 : move) + blocks.length) % blocks.length);
  }
  return (name) => {
    if (name === undefined) return;
    const place = blocks.findIndex((block) => `m${Math.abs(block[0])}` === name);
    if (place >= 0) look(place);
    else said.textContent = `${name} lies in no memory of the arena after the last pass`;
  };
} });
