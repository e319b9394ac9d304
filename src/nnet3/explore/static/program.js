"use strict";
// The program before and after each pass: each command with its node and its matrices.

VIEWS.push({ id: "program", title: "Program", build(panel) {
  const stages = DATA.programs;
  if (!stages) { panel.append(notice(NO_REQUEST)); return () => {}; }
  const texts = DATA.texts;
  const last = (k) => { while (!stages[k].commands) k--; return stages[k]; };  // what holds after stage k
  let stage = stages.length - 1, filter = "";

  const buttons = stages.map((each, number) => button(`${each.pass} (${count(each.count)})`, () => { stage = number; show(); },
    { class: each.commands ? "" : "same", title: each.commands ? "" : "changed nothing", "aria-pressed": "false" }));
  const search = el("input", { type: "search", placeholder: "filter: text, m12 or node:name", "aria-label": "filter commands",
    input: () => { filter = search.value.trim(); show(); } });
  const found = el("span", { role: "status" });
  const list = new RowList("commands", 22, (row, number) => {
    const [text] = last(stage).commands[number];
    if (fresh && fresh.has(number)) row.classList.add("fresh");
    row.append(el("span", { class: "number" }, `c${number}`), el("code", {}, texts[text]));
  }, (number) => describe(number));
  const details = el("div", { class: "details", "aria-live": "polite" });
  panel.append(el("div", { class: "bar passes", role: "group", "aria-label": "passes" }, ...buttons),
    el("div", { class: "bar" }, search, found), el("div", { class: "two" }, list.box, details));
  let fresh = null;

  function changed() {
    if (stage === 0 || !stages[stage].commands) return null;
    const before = new Map();
    for (const [text] of last(stage - 1).commands) before.set(text, (before.get(text) || 0) + 1);
    const made = new Set();
    stages[stage].commands.forEach(([text], number) => {
      const left = before.get(text) || 0;
      if (left) before.set(text, left - 1); else made.add(number);
    });
    return made;
  }
  function fits(command) {
    if (!filter) return true;
    if (filter.startsWith("node:")) return texts[command[2]] !== "" && layerOf(texts[command[2]]) === layerOf(filter.slice(5));
    if (/^m\d+$/.test(filter)) return command[3].includes(Number(filter.slice(1)));
    return texts[command[0]].toLowerCase().includes(filter.toLowerCase());
  }
  function show() {
    fresh = changed();
    buttons.forEach((each, number) => each.setAttribute("aria-pressed", number === stage));
    const { commands } = last(stage);
    const numbers = commands.map((_, number) => number).filter((number) => fits(commands[number]));
    const marked = fresh ? `, ${count(fresh.size)} new or changed` : stages[stage].commands ? "" : ", nothing changed";
    found.textContent = `${count(numbers.length)} of ${count(commands.length)} commands${marked}`;
    list.set(numbers);
    details.replaceChildren(notice("Choose a command."));
  }
  function describe(number) {
    const { commands, matrices } = last(stage), [text, kind, node, used] = commands[number];
    const name = texts[node];
    const parts = [el("h2", {}, `c${number}: ${texts[kind]}`), el("p", { class: "code" }, texts[text])];
    if (name) {
      parts.push(el("p", {}, "node ", nodeOf(name) >= 0 ? el("a", { href: `#network/${encodeURIComponent(name)}` }, name) : name));
    }
    for (const matrix of used) {
      parts.push(el("p", { class: "code" }, texts[matrices[matrix]] || `m${matrix}`),
        el("p", { class: "actions" }, button(`commands with m${matrix}`, () => { filter = search.value = `m${matrix}`; show(); }),
          button(`m${matrix} in memory`, () => go("memory", `m${matrix}`))));
    }
    details.replaceChildren(...parts);
  }
  return (argument) => {
    if (argument !== undefined) {
      const command = /^c(\d+)$/.exec(argument);
      filter = search.value = command ? "" : argument;
      stage = stages.length - 1;
      show();
      if (command) list.select(Number(command[1]));
    } else show();
  };
} });
