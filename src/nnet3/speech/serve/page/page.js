"use strict";

const PIECE_SECONDS = 0.2;
const MOST_WAITING = 50; // pieces without an answer
const SURE = 0.6; // confidence of a word
const [record, label, level, state, model, transcript, hint, partial, copy, clear] = [
  "record", "label", "level", "state", "model", "transcript", "hint", "partial", "copy", "clear",
].map((id) => document.getElementById(id));

let recording = null; // what is open while words come

function say(text, kind = "") {
  state.textContent = text;
  state.className = kind;
}

function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

function line(paragraph, start, content) {
  const time = document.createElement("time");
  time.textContent = start === null ? "" : clock(start);
  const words = document.createElement("span");
  words.append(...content);
  paragraph.replaceChildren(time, words);
}

function showResult(result) {
  partial.hidden = true;
  if (!result.text) return;
  const words = (result.result || []).flatMap((word, number) => {
    const each = document.createElement("span");
    each.textContent = word.word;
    if (word.conf !== undefined) each.title = `${Math.round(100 * word.conf)} %, from ${word.start.toFixed(2)} s`;
    if (word.conf < SURE) each.className = "unsure";
    return number ? [" ", each] : [each];
  });
  const paragraph = document.createElement("p");
  paragraph.className = "final";
  line(paragraph, result.result ? result.result[0].start : null, words.length ? words : [result.text]);
  transcript.insertBefore(paragraph, partial);
  copy.disabled = clear.disabled = false;
}

function show(answer) {
  if (answer.error !== undefined) return end(answer.error);
  if (answer.partial === undefined) showResult(answer);
  else {
    line(partial, null, [answer.partial]);
    partial.hidden = !answer.partial;
  }
  hint.hidden = true;
  transcript.scrollTop = transcript.scrollHeight;
}

function end(problem = "") {
  if (!recording) return;
  const { socket, context, stream } = recording;
  recording = null;
  for (const track of stream.getTracks()) track.stop();
  context.close();
  socket.onclose = socket.onmessage = null;
  socket.close();
  partial.hidden = true;
  record.setAttribute("aria-pressed", "false");
  record.disabled = false;
  label.textContent = "Record";
  say(problem || "ready", problem ? "bad" : "");
}

async function microphone() {
  if (!navigator.mediaDevices) {
    throw new Error("A browser gives the microphone to pages of this computer or by HTTPS only.");
  }
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  } catch (error) {
    throw new Error(`No microphone: ${error.message}`);
  }
}

function connect() {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => resolve(socket);
    socket.onclose = () => reject(new Error("The server takes no connection now."));
  });
}

async function begin() {
  record.disabled = true;
  say("…");
  let stream = null;
  try {
    stream = await microphone();
    const context = new AudioContext();
    await context.audioWorklet.addModule("recorder.js");
    const socket = await connect();
    const recorder = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
    recording = { socket, context, stream, recorder, waiting: 0 };
    socket.send(JSON.stringify({ config: { sample_rate: context.sampleRate, words: true } }));
    socket.onmessage = ({ data }) => {
      recording.waiting--;
      show(JSON.parse(data));
    };
    socket.onclose = ({ code, reason }) => end(code === 1000 ? "" : reason || "The connection is lost.");
    recorder.port.onmessage = ({ data }) => recording && heard(data);
    context.createMediaStreamSource(stream).connect(recorder);
    record.setAttribute("aria-pressed", "true");
    label.textContent = "Stop";
    hint.textContent = "Listening …";
    say("listening", "live");
  } catch (error) {
    for (const track of stream ? stream.getTracks() : []) track.stop();
    say(error.message, "bad");
  }
  record.disabled = false;
}

function heard({ samples, peak, isOver }) {
  if (isOver) {
    recording.socket.send('{"eof" : 1}');
    return;
  }
  if (recording.waiting > MOST_WAITING) return end("The server is too slow for this.");
  recording.socket.send(samples);
  recording.waiting++;
  level.style.transform = `scale(${1 + 0.15 * peak}, ${1 + 0.9 * peak})`;
  const late = PIECE_SECONDS * recording.waiting;
  if (label.textContent === "Stop") say(late > 1 ? `listening, ${late.toFixed(0)} s behind` : "listening", "live");
}

record.onclick = () => {
  if (!recording) return begin();
  record.disabled = true;
  label.textContent = "Record";
  say("last words …");
  recording.recorder.port.postMessage("end");
};

copy.onclick = async () => {
  const lines = [...transcript.querySelectorAll(".final > span")];
  await navigator.clipboard.writeText(lines.map((each) => each.textContent).join("\n"));
  say("copied");
};

clear.onclick = () => {
  for (const each of transcript.querySelectorAll(".final")) each.remove();
  hint.hidden = recording !== null;
  hint.textContent = "Press the button and speak.";
  copy.disabled = clear.disabled = true;
};

fetch("health")
  .then((answer) => answer.json())
  .then((health) => { model.textContent = `${health.model}, ${health.sample_rate} Hz`; })
  .catch(() => say("The server does not answer.", "bad"));
