// The page: plays a recording into the network piece by piece, and draws what comes out. `?speed=0` is as fast as it
// can, 1 is real time.

import { AudioStream } from "./stream.mjs";

const PIECE = 0.1; // seconds of audio that the page hears at once
const ROW = 24;
const NAMES = 28; // pixels for the names of classes
const FEWEST = 4; // rows of a word
const COLOURS = [[13, 8, 56], [86, 15, 109], [187, 55, 84], [249, 142, 9], [252, 255, 164]];

const speed = Number(new URLSearchParams(location.search).get("speed") ?? 1);
const element = (id) => document.getElementById(id);

// Samples between -1 and 1 of a WAV file with 16 bits and one channel.
function samplesOf(buffer) {
  return Float32Array.from(new Int16Array(buffer, 44), (sample) => sample / 32768);
}

function canvasOf(id, height) {
  const canvas = element(id);
  const ratio = window.devicePixelRatio;
  const width = canvas.clientWidth;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return { context, width, height };
}

function colourOf(probability) {
  const place = Math.min(Math.max(probability, 0), 1) * (COLOURS.length - 1);
  const first = Math.min(Math.floor(place), COLOURS.length - 2);
  const mixed = COLOURS[first].map((from, i) => Math.round(from + (place - first) * (COLOURS[first + 1][i] - from)));
  return `rgb(${mixed.join(" ")})`;
}

// Draws samples that are heard, and posteriors and words that come out, from left to right.
class Picture {
  constructor(samples, labels, rows) {
    this.samples = samples;
    this.rows = rows; // of the whole recording
    this.wave = canvasOf("wave", 90);
    this.heat = canvasOf("heat", ROW * labels.length);
    this.words = canvasOf("words", 44);
    this.heat.context.fillStyle = colourOf(0);
    this.heat.context.fillRect(NAMES, 0, this.heat.width, this.heat.height);
    this.heat.context.font = "14px system-ui, sans-serif";
    this.heat.context.fillStyle = "#444";
    labels.forEach((label, i) => this.heat.context.fillText(label, 8, ROW * (i + 0.7)));
    this.heard = 0;
  }

  x(share) {
    return NAMES + share * (this.wave.width - NAMES);
  }

  hear(count) {
    const { context, height } = this.wave;
    context.fillStyle = "#3b6ea5";
    const step = this.samples.length / (this.wave.width - NAMES);
    for (let first = this.heard; first + step <= this.heard + count; first += step) {
      let peak = 0;
      for (let i = Math.floor(first); i < first + step; i++) peak = Math.max(peak, Math.abs(this.samples[i] ?? 0));
      const tall = Math.max(1, Math.min(1, 1.6 * peak) * height);
      context.fillRect(this.x(first / this.samples.length), (height - tall) / 2, 1, tall);
    }
    this.heard += count;
  }

  row(number, posteriors) {
    const left = this.x(number / this.rows);
    posteriors.forEach((posterior, i) => {
      this.heat.context.fillStyle = colourOf(posterior);
      this.heat.context.fillRect(left, i * ROW, this.x((number + 1) / this.rows) - left + 0.5, ROW - 1);
    });
  }

  word({ label, first, end }) {
    const { context } = this.words;
    const [left, right] = [this.x(first / this.rows), this.x(end / this.rows)];
    context.fillStyle = "#e8eef5";
    context.fillRect(left, 4, right - left, 36);
    context.fillStyle = "#123";
    context.font = "600 24px system-ui, sans-serif";
    context.textAlign = "center";
    context.fillText(label, (left + right) / 2, 31);
  }
}

// Words: rows between pauses, of the class with the largest sum of log-probabilities. The last class is the pause.
class Words {
  constructor(labels) {
    this.labels = labels;
    this.count = 0;
    this.open = [];
    this.found = [];
  }

  // Takes the next row of log-probabilities, or none at the end; returns the word that is over with it.
  add(row) {
    const pause = this.labels.length - 1;
    const number = this.count++;
    if (row && row.indexOf(Math.max(...row)) !== pause) {
      this.open.push(row);
      return undefined;
    }
    const rows = this.open;
    this.open = [];
    if (rows.length < FEWEST) return undefined;
    const sums = this.labels.slice(0, pause).map((_, i) => rows.reduce((sum, each) => sum + each[i], 0));
    const word = { label: this.labels[sums.indexOf(Math.max(...sums))], first: number - rows.length, end: number };
    this.found.push(word);
    return word;
  }
}

async function main() {
  const { about, labels } = await (await fetch("page.json")).json();
  const samples = samplesOf(await (await fetch("recording.wav")).arrayBuffer());
  const stream = await AudioStream.load("model.onnx", about);
  const seconds = samples.length / about.sample_frequency;
  const total = (samples.length / about.shift_samples) / about.frame_subsampling_factor;
  const picture = new Picture(samples, labels, total);
  const words = new Words(labels);
  const rows = [];
  let computing = 0;

  async function add(promise) {
    const start = performance.now();
    for (const row of await promise) {
      picture.row(rows.length, row.map(Math.exp));
      rows.push(row);
      show(words.add(row));
    }
    computing += performance.now() - start;
  }

  function show(word) {
    if (!word) return;
    picture.word(word);
    element("heard").textContent = words.found.map((each) => each.label).join(" ");
  }

  const size = Math.round(PIECE * about.sample_frequency);
  const begin = performance.now();
  for (let first = 0; first < samples.length; first += size) {
    const piece = samples.subarray(first, first + size);
    const due = speed > 0 ? begin + (1000 * (first + piece.length)) / (speed * about.sample_frequency) : 0;
    await new Promise((done) => setTimeout(done, Math.max(due - performance.now(), 0)));
    picture.hear(piece.length);
    await add(stream.accept(piece));
    element("clock").textContent = `${((first + piece.length) / about.sample_frequency).toFixed(1)} s`;
  }
  await add(stream.finish());
  show(words.add());
  element("clock").textContent =
    `${seconds.toFixed(1)} s of audio in ${(computing / 1000).toFixed(2)} s of computing, one thread of WebAssembly`;
  window.result = { rows, words: words.found.map((each) => each.label) };
}

main().catch((error) => {
  element("clock").textContent = String(error);
  window.result = { error: String(error) };
});
