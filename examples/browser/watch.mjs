// node watch.mjs FOLDER CHROMIUM [SCREENSHOT]: opens the page of a folder in a headless browser; prints its result.

import { createReadStream } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { chromium } from "playwright-core";

const [folder, executablePath, screenshot] = process.argv.slice(2);
const TYPES = { ".html": "text/html", ".mjs": "text/javascript", ".wasm": "application/wasm" };
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

const server = createServer((request, response) => {
  const name = normalize(new URL(request.url, "http://localhost").pathname);
  const file = createReadStream(join(folder, name === "/" ? "index.html" : name));
  file.on("open", () => {
    response.setHeader("Content-Type", TYPES[extname(file.path)] ?? "application/octet-stream");
    file.pipe(response);
  });
  file.on("error", () => response.writeHead(404).end());
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const browser = await chromium.launch({ executablePath, args: FLAGS });
try {
  const page = await browser.newPage({ viewport: { width: 1048, height: 568 }, deviceScaleFactor: 1.5 });
  page.on("pageerror", (error) => console.error(String(error)));
  page.on("console", (message) => message.type() === "error" && console.error(message.text()));
  await page.goto(`http://127.0.0.1:${server.address().port}/?speed=0`);
  const result = await page.waitForFunction(() => window.result, undefined, { timeout: 120_000 });
  if (screenshot) await page.screenshot({ path: screenshot });
  console.log(JSON.stringify(await result.jsonValue()));
} finally {
  await browser.close();
  server.close();
}
