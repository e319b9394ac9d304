// AudioStream: one stream of audio through a file of
//   nnet3 export-onnx --streaming=true --frames-per-chunk=21 --features=fbank:fbank.conf
// in onnxruntime-web. `about` is the file's metadata.

import * as ort from "./ort/ort.wasm.min.mjs";

ort.env.wasm.numThreads = 1;

const SCALE = 32768; // of samples in the file: 16 bits

export class AudioStream {
  static async load(url, about) {
    return new AudioStream(await ort.InferenceSession.create(url), about);
  }

  constructor(session, about) {
    this.session = session;
    this.about = about;
    this.state = { place: new ort.Tensor("int64", [0n], []) };
    for (const [name, shape] of Object.entries(about.state)) {
      const size = shape.reduce((product, each) => product * each, 1);
      this.state[name] = new ort.Tensor("float32", new Float32Array(size), [1, ...shape]);
    }
    this.waiting = new Float32Array(0);
    this.samples = 0;
    this.rows = 0;
    this.size = about.first_samples; // of the next call
  }

  // Takes samples between -1 and 1; returns the rows of output that they complete.
  async accept(samples) {
    const joined = new Float32Array(this.waiting.length + samples.length);
    joined.set(this.waiting);
    joined.set(samples, this.waiting.length);
    this.waiting = joined;
    this.samples += samples.length;
    const rows = [];
    while (this.waiting.length >= this.size) rows.push(...(await this.#call()));
    return rows;
  }

  // Ends the stream; returns the last rows.
  async finish() {
    const total = Math.ceil(this.#frames() / this.about.frame_subsampling_factor);
    const rows = [];
    while (this.rows < total) rows.push(...(await this.#call()));
    return rows.slice(0, rows.length - Math.max(this.rows - total, 0));
  }

  async #call() {
    const count = Math.min(this.waiting.length, this.size);
    const wave = new Float32Array(this.size);
    for (let i = 0; i < count; i++) wave[i] = SCALE * this.waiting[i];
    this.waiting = this.waiting.slice(count);
    const found = await this.session.run({
      wave: new ort.Tensor("float32", wave, [1, this.size]),
      count: new ort.Tensor("int64", [BigInt(count)], [1]),
      ...this.state,
    });
    for (const name in this.state) this.state[name] = found[`next_${name}`];
    this.size = this.about.input_samples;
    this.rows += this.about.output_rows;
    const dim = this.about.output_dims.output;
    return Array.from({ length: this.about.output_rows }, (_, row) =>
      Array.from(found.output.data.subarray(row * dim, (row + 1) * dim)),
    );
  }

  #frames() {
    const { frame_samples, shift_samples, snip_edges } = this.about;
    if (!snip_edges) return Math.floor((this.samples + Math.floor(shift_samples / 2)) / shift_samples);
    return Math.max(0, Math.floor((this.samples - frame_samples) / shift_samples) + 1);
  }
}
