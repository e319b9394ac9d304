"use strict";
// The page: a heading, a tab for each view, and the address, which says view and choice.

(function start() {
  const facts = Object.entries(NETWORK.facts).filter(([, value]) => value !== "").map(([name, value]) => `${name} ${typeof value === "number" ? count(value) : value}`);
  const tabs = [], panels = [], shows = [];
  VIEWS.forEach((view, number) => {
    panels.push(el("section", { id: `view-${view.id}`, class: `view ${view.id}`, role: "tabpanel", "aria-labelledby": `tab-${view.id}`, hidden: "" }));
    tabs.push(button(view.title, () => go(view.id), { id: `tab-${view.id}`, role: "tab", "aria-controls": `view-${view.id}`,
      keydown: (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!move) return;
        const next = (number + move + VIEWS.length) % VIEWS.length;
        tabs[next].focus();
        go(VIEWS[next].id);
      } }));
  });
  document.body.append(el("header", {}, el("h1", {}, DATA.title || "Network"), el("p", { class: "facts" }, facts.join(" · ")),
    el("div", { class: "tabs", role: "tablist", "aria-label": "views" }, ...tabs)), el("main", {}, ...panels));

  function open() {
    const [id, ...rest] = location.hash.slice(1).split("/");
    const number = Math.max(0, VIEWS.findIndex((view) => view.id === id));
    let argument;
    try { argument = rest.length ? decodeURIComponent(rest.join("/")) : undefined; } catch (error) { argument = undefined; }
    panels.forEach((panel, other) => { panel.hidden = other !== number; });
    tabs.forEach((tab, other) => {
      tab.setAttribute("aria-selected", other === number);
      tab.tabIndex = other === number ? 0 : -1;
    });
    if (!shows[number]) shows[number] = VIEWS[number].build(panels[number]);
    shows[number](argument);
  }
  window.addEventListener("hashchange", open);
  window.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.tagName === "INPUT") return;
    const search = document.querySelector(".view:not([hidden]) input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  });
  open();
}());
