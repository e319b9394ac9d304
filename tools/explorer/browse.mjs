// Does in a headless browser what it reads as JSON, and prints what came of it:
// {"browser": path, "url": ..., "dark": false, "width": 1200, "height": 800, "steps": [[what, ...], ...]}

import { chromium } from "playwright-core";

const task = JSON.parse(await new Promise((done) => {
  let text = "";
  process.stdin.on("data", (part) => { text += part; }).on("end", () => done(text));
}));
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
const browser = await chromium.launch({ executablePath: task.browser, args: FLAGS });
const page = await browser.newPage({
  viewport: { width: task.width ?? 1200, height: task.height ?? 800 },
  colorScheme: task.dark ? "dark" : "light",
});
const errors = [], requests = [];
page.on("console", (message) => { if (["error", "warning"].includes(message.type())) errors.push(message.text()); });
page.on("pageerror", (error) => errors.push(String(error)));
page.on("request", (request) => requests.push(request.url()));
page.on("dialog", (dialog) => { errors.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });

const STEPS = {
  click: (selector) => page.locator(selector).first().click(),
  doubleClick: (selector) => page.locator(selector).first().dblclick(),
  hover: (selector) => page.locator(selector).first().hover(),
  hoverAt: async (selector, x, y) => page.locator(selector).first().hover({ position: { x, y } }),
  focus: (selector) => page.locator(selector).first().focus(),
  press: (key) => page.keyboard.press(key),
  type: (text) => page.keyboard.type(text),
  fill: (selector, text) => page.locator(selector).first().fill(text),
  choose: (selector, value) => page.locator(selector).first().selectOption(value),
  text: (selector) => page.locator(selector).first().innerText(),
  texts: (selector) => page.locator(selector).allTextContents(),
  count: (selector) => page.locator(selector).count(),
  evaluate: (script) => page.evaluate(script),
  screenshot: async (path) => { await page.screenshot({ path }); },
};
const begin = Date.now(), found = [];
await page.goto(task.url);
const loaded = Date.now() - begin;
try {
  for (const [what, ...given] of task.steps) {
    page.setDefaultTimeout(20000);
    const result = await STEPS[what](...given);
    found.push(result ?? null);
  }
} finally {
  process.stdout.write(JSON.stringify({ found, errors, requests, milliseconds: loaded }));
  await browser.close();
}
