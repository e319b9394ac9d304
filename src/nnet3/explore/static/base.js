"use strict";
// What all views share: elements made of text alone, lists of any length, colours, names of layers.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value);
  }
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const count = (number) => number.toLocaleString("en");
const button = (text, click, attributes) => el("button", { type: "button", click, ...attributes }, text);
const colour = (number) => `hsl(${(number * 47) % 360} 60% 66%)`;

function bytes(number) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (number >= size) return `${(number / size).toPrecision(3)} ${unit}`;
  }
  return `${number} bytes`;
}

// A list of which only the rows in sight are in the document. Arrow keys move the chosen row.
class RowList {
  constructor(label, rowHeight, write, choose) {
    this.rowHeight = rowHeight; this.write = write; this.choose = choose;
    this.items = []; this.chosen = -1;
    this.spacer = el("div", { class: "spacer", role: "presentation" });
    this.box = el("div", { class: "rows", role: "listbox", tabindex: 0, "aria-label": label,
      scroll: () => this.draw(), keydown: (event) => this.key(event) }, this.spacer);
    new ResizeObserver(() => this.draw()).observe(this.box);
  }
  set(items) {
    this.items = items; this.chosen = -1;
    this.spacer.style.height = `${items.length * this.rowHeight}px`;
    this.box.scrollTop = 0;
    this.draw();
  }
  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.rowHeight) - 5);
    const last = Math.min(this.items.length, first + Math.ceil((this.box.clientHeight || 400) / this.rowHeight) + 10);
    const rows = [];
    for (let place = first; place < last; place++) {
      const row = el("div", { class: "row", role: "option", id: `${this.box.getAttribute("aria-label")}-${place}`,
        "aria-selected": place === this.chosen, "aria-posinset": place + 1, "aria-setsize": this.items.length,
        click: () => this.select(place) });
      row.style.top = `${place * this.rowHeight}px`;
      this.write(row, this.items[place], place);
      rows.push(row);
    }
    this.spacer.replaceChildren(...rows);
    if (this.chosen >= 0) this.box.setAttribute("aria-activedescendant", `${this.box.getAttribute("aria-label")}-${this.chosen}`);
  }
  mark(place) {
    this.chosen = place;
    const top = place * this.rowHeight, height = this.box.clientHeight;
    if (top < this.box.scrollTop || top + this.rowHeight > this.box.scrollTop + height) {
      this.box.scrollTop = Math.max(0, top - height / 3);
    }
    this.draw();
  }
  select(place) {
    if (place < 0 || place >= this.items.length) return;
    this.mark(place);
    this.choose(this.items[place], place);
  }
  key(event) {
    const page = Math.floor(this.box.clientHeight / this.rowHeight);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    let place = event.key in moves ? Math.max(0, this.chosen) + (this.chosen < 0 ? 0 : moves[event.key])
      : event.key === "Home" ? 0 : event.key === "End" ? this.items.length - 1 : null;
    if (place === null) return;
    event.preventDefault();
    this.select(Math.min(this.items.length - 1, Math.max(0, place)));
  }
}

// The visible node of a name: the input of a component belongs to the component.
const NETWORK = DATA.network || { layers: [], nodes: [], arcs: [], components: [], facts: {} };
const NODE_OF = new Map(NETWORK.nodes.map((node, number) => [node.name, number]));
function nodeOf(name) {
  if (NODE_OF.has(name)) return NODE_OF.get(name);
  const owner = name.endsWith("_input") ? name.slice(0, -6) : name;
  return NODE_OF.has(owner) ? NODE_OF.get(owner) : -1;
}
function layerOf(name) {
  const node = nodeOf(name);
  return node < 0 ? -1 : NETWORK.nodes[node].layer;
}

const VIEWS = [];  // {id, title, build(panel) -> show(argument)}
function go(view, argument) {
  location.hash = `#${view}${argument === undefined ? "" : `/${encodeURIComponent(argument)}`}`;
}
const notice = (text) => el("p", { class: "notice" }, text);
const NO_REQUEST = "This page was made without a request: nnet3 explore --output=output=0:9 MODEL shows what becomes of one.";

function histogram(each) {
  const text = each.counts.length ? `mean ${each.mean}, std ${each.std}, ${each.min} to ${each.max}` : "no finite numbers";
  const most = Math.max(1, ...each.counts), width = 240, height = 60, step = width / Math.max(1, each.counts.length);
  const bars = each.counts.map((number, bin) => svg("rect", { x: bin * step, width: Math.max(step - 0.5, 0.5),
    y: height - (height * number) / most, height: (height * number) / most }));
  return el("figure", {}, el("figcaption", {}, `${each.name} ${each.shape.join(" × ")}: ${text}${each.bad ? `; ${each.bad} not finite` : ""}`),
    svg("svg", { class: "histogram", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `histogram of ${each.name}: ${text}` }, ...bars));
}
