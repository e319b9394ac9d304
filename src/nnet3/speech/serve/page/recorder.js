"use strict";

/* Gives 16-bit samples of the microphone, a fifth of a second at a time, and how loud they were. */
class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Int16Array(Math.round(sampleRate / 5));
    this.filled = 0;
    this.peak = 0;
    this.isOver = false;
    this.port.onmessage = () => {
      this.isOver = true;
      this.give();
      this.port.postMessage({ isOver: true });
    };
  }

  give() {
    const samples = this.piece.slice(0, this.filled);
    this.port.postMessage({ samples: samples.buffer, peak: this.peak }, [samples.buffer]);
    this.filled = this.peak = 0;
  }

  process([channels]) {
    if (this.isOver || channels.length === 0) return !this.isOver;
    for (let i = 0; i < channels[0].length; i++) {
      let sample = 0;
      for (const channel of channels) sample += channel[i];
      sample = Math.max(-1, Math.min(1, sample / channels.length));
      this.peak = Math.max(this.peak, Math.abs(sample));
      this.piece[this.filled++] = Math.round(32767 * sample);
      if (this.filled === this.piece.length) this.give();
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
