"use strict";
// A training run: curves over minibatches, updates, events, settings.

VIEWS.push({ id: "curves", title: "Curves", build(panel) {
  const WIDTH = 900, HEIGHT = 190, LEFT = 80, BOTTOM = 24, TOP = 10;
  const said = el("p", { class: "said", role: "status" }, "Point at a curve, or use the arrow keys on a picture.");
  const shown = DATA.curves.filter((curve) => curve.lines.length);
  const pictures = shown.map((curve) => draw(curve));
  panel.append(said, el("div", { class: "scroll curves-box" },
    ...(pictures.length ? pictures : [notice("Nothing has been trained yet.")])));

  function draw(curve) {
    const steps = curve.lines.flatMap((line) => line.steps), values = curve.lines.flatMap((line) => line.values);
    const first = Math.min(...steps), last = Math.max(...steps), low = Math.min(...values), high = Math.max(...values);
    const x = (step) => LEFT + ((WIDTH - LEFT - 10) * (step - first)) / Math.max(last - first, 1e-9);
    const y = (value) => TOP + (HEIGHT - BOTTOM - TOP) * (1 - (value - low) / Math.max(high - low, 1e-12));
    const all = curve.lines.flatMap((line) => line.steps.map((step, k) => ({ line, step, value: line.values[k] }))).sort((a, b) => a.step - b.step);
    const mark = svg("circle", { r: 5, class: "mark", visibility: "hidden" });
    let at = -1;
    const look = (k) => {
      at = Math.min(all.length - 1, Math.max(0, k));
      mark.setAttribute("cx", x(all[at].step));
      mark.setAttribute("cy", y(all[at].value));
      mark.setAttribute("visibility", "visible");
      said.textContent = `${curve.title}, ${all[at].line.name}: ${Number(all[at].value.toPrecision(6))} after ${count(all[at].step)} minibatches`;
    };
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", tabindex: 0, role: "application", "aria-label": curve.title,
      keydown: (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (move) { event.preventDefault(); look(at + move); }
      },
      mousemove: (event) => {
        const box = picture.getBoundingClientRect(), scale = WIDTH / box.width;
        const px = (event.clientX - box.left) * scale, py = (event.clientY - box.top) * scale;
        const far = all.map((point) => Math.hypot(x(point.step) - px, y(point.value) - py));
        look(far.indexOf(Math.min(...far)));
      } });
    for (const step of DATA.epochs) {
      if (step >= first && step <= last) picture.append(svg("line", { class: "epoch", x1: x(step), x2: x(step), y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    curve.lines.forEach((line, number) => picture.append(
      svg("polyline", { class: `curve line-${number}`, points: line.steps.map((step, k) => `${x(step)},${y(line.values[k])}`).join(" ") }),
      ...(line.steps.length < 60 ? line.steps.map((step, k) => svg("circle", { class: `point line-${number}`, r: 2.5, cx: x(step), cy: y(line.values[k]) })) : [])));
    for (const value of new Set([low, high])) picture.append(svg("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(Number(value.toPrecision(4)))));
    for (const step of new Set([first, last])) picture.append(svg("text", { class: "tick", x: x(step), y: HEIGHT - 6, "text-anchor": step === first ? "start" : "end" }, count(step)));
    picture.append(mark);
    const names = curve.lines.length > 1 ? curve.lines.flatMap((line, number) => [el("span", { class: `key line-${number}` }, "—"), ` ${line.name} `]) : [];
    return el("figure", {}, el("figcaption", {}, `${curve.title} `, ...names), picture);
  }
  return () => {};
} });

VIEWS.push({ id: "updates", title: "Updates", build(panel) {
  panel.append(DATA.updates.length
    ? el("div", { class: "scroll histograms" }, el("p", { class: "notice" }, "What changed between the last two models that were kept."), ...DATA.updates.map(histogram))
    : notice("Fewer than two models have been kept ([combination] models)."));
  return () => {};
} });

VIEWS.push({ id: "events", title: "Events", build(panel) {
  const search = el("input", { type: "search", placeholder: "filter events, such as skip", "aria-label": "filter events", input: () => filter() });
  const found = el("span", { role: "status" });
  const list = new RowList("events", 22, (row, number) => {
    const [when, event, text] = DATA.events[number];
    if (["skip", "error", "stop"].includes(event)) row.classList.add("fresh");
    row.append(el("span", { class: "number" }, when), " ", el("strong", {}, event), " ", text);
  }, (number) => { details.textContent = DATA.events[number].join(" "); });
  const details = el("p", { class: "said", "aria-live": "polite" });
  panel.append(el("div", { class: "bar" }, search, found), list.box, details);
  function filter() {
    const asked = search.value.trim().toLowerCase();
    const numbers = DATA.events.map((_, number) => number).filter((number) => DATA.events[number].join(" ").toLowerCase().includes(asked));
    found.textContent = `${count(numbers.length)} of ${count(DATA.events.length)} events`;
    list.set(numbers);
  }
  filter();
  return () => {};
} });

VIEWS.push({ id: "settings", title: "Settings", build(panel) {
  panel.append(el("div", { class: "scroll" }, el("table", { class: "bars" },
    el("tbody", {}, ...DATA.settings.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)))))));
  return () => {};
} });
