// The simulator's player: fetches a trace, and goes through it by time, by step, by key. What
// happens is decided by the server's model; nothing here knows a rule of it.
"use strict";

const words = JSON.parse(document.getElementById("sim-words").textContent);
const player = document.getElementById("player");
const part = (id) => document.getElementById(id);
const stage = new Stage(part("sim-stage"), words);
const FRAME_MS = 1000 / 60, HEARD_MS = 1500;
let trace = null, frames = [], place = 0, now = 0, playing = false, last = 0, heardAt = 0, asked = 0;

// ---- fetching

async function load(query, { then = "rest", keep = false } = {}) {
  const mine = ++asked;
  pause();
  fail("");
  part("sim-stage").setAttribute("aria-busy", "true");
  let answer = null;
  try {
    const response = await fetch(`${player.dataset.trace}?${query}`, { headers: { Accept: "application/json" } });
    answer = await response.json();
    if (mine !== asked) return;
    if (!response.ok) return refused(answer);
  } catch {
    if (mine === asked) fail(words.failed + words.network);
    return;
  } finally {
    part("sim-stage").removeAttribute("aria-busy");
  }
  if (!keep) history.replaceState(null, "", `${location.pathname}?${query}`);
  show(answer);
  if (then === "play") play();
  if (then === "double" && trace.doubled !== null) showDouble();
}

function refused(problem) {
  const wrong = problem.errors && problem.errors[0];
  const input = wrong && part("f-" + wrong.field);
  if (input) {
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }
  fail(words.failed + (problem.detail || problem.title || ""));
}

function fail(said) {
  part("sim-error").textContent = said;
  if (!said) for (const each of document.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
}

function formQuery() { return new URLSearchParams(new FormData(part("sim-form"))).toString(); }

// ---- a trace and its frames

function show(fresh) {
  trace = fresh;
  frames = framesOf(fresh);
  fillForm(fresh.plan);
  stage.begin(fresh.plan);
  part("sim-place").max = fresh.steps.length;
  for (const id of ["sim-back", "sim-play", "sim-step", "sim-place"]) part(id).disabled = false;
  tellVerdict();
  listSteps();
  go(0);
}

// Each step says what it changed; a frame is everything after it. The first is the empty world.
function framesOf({ plan, steps }) {
  const idle = { pc: "idle", job: null, fence: null, piece: null, paused: false, zombie: false, since: 0, until: 0, hidden: null };
  const absent = { state: "absent", fence: 0, lease: null, expired: false, rows: [], messages: [], effects: Array.from({ length: plan.pieces }, () => []) };
  const found = [{
    workers: Array.from({ length: plan.workers }, () => idle),
    jobs: Array.from({ length: plan.jobs }, () => absent),
  }];
  for (const step of steps) {
    const before = found[found.length - 1];
    found.push({
      workers: before.workers.map((each, n) => step.workers[n] || each),
      jobs: before.jobs.map((each, n) => step.jobs[n] || each),
    });
  }
  return found;
}

function fillForm(plan) {
  for (const [name, value] of Object.entries(plan)) {
    const input = part("f-" + name);
    if (!input) continue;
    if (name === "fence") input.checked = !value;
    else input.value = value;
  }
}

function tellVerdict() {
  const box = part("sim-verdict"), lines = [];
  const line = (text, kind) => {
    const p = document.createElement("p");
    p.className = kind;
    p.textContent = text;
    lines.push(p);
  };
  if (trace.broken.length) {
    if (trace.doubled !== null) line(filled(words.doubled, { n: trace.doubled + 1 }), "bad");
    line(words.broken, "bad");
    const list = document.createElement("ul");
    list.append(...trace.broken.map((each) => {
      const item = document.createElement("li");
      item.textContent = each.words;
      return item;
    }));
    lines.push(list);
  } else line(filled(words.holds, { n: trace.properties, steps: trace.steps.length }), "good");
  if (!trace.plan.fence && trace.doubled === null) line(words.lucky, "soft");
  if (!trace.safe) line(words.unsafe, "soft");
  line(words["stopped." + trace.stopped], "soft small");
  box.replaceChildren(...lines);
  part("sim-double").hidden = trace.doubled === null;
  part("sim-shortest").hidden = trace.plan.fence;
  part("sim-shows").hidden = trace.plan.fence;
}

function listSteps() {
  const rows = part("sim-rows"), { time, model } = rows.dataset;
  rows.replaceChildren(...trace.steps.map((step, n) => {
    const row = document.createElement("tr");
    row.className = "k-" + step.kind + (step.doubled ? " twice" : "");
    row.dataset.place = n + 1;
    const cells = [0, 1, 2].map(() => row.insertCell());
    cells[0].className = "number";
    cells[0].dataset.head = time;
    cells[0].textContent = seconds(step.at);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = step.says;
    cells[1].append(button);
    cells[2].className = "small";
    cells[2].dataset.head = model;
    const told = document.createElement("span"), code = document.createElement("code");
    code.textContent = step.action;
    told.append(code, " ", step.code);
    cells[2].append(told);
    return row;
  }));
}

function seconds(at) {
  return (at / 1000).toLocaleString(player.dataset.lang, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
}

// ---- going through it

// `place` counts the steps that have happened; beats that are not shown are never stopped at.
function isHidden(n) { return n >= 1 && trace.steps[n - 1].kind === "beat" && !part("sim-beats").checked; }

function go(wanted) {
  place = Math.max(0, Math.min(trace.steps.length, wanted));
  now = place ? trace.steps[place - 1].at : 0;
  tellStep(true);
  draw();
}

function stepOn() {
  let next = place + 1;
  while (next < trace.steps.length && isHidden(next)) next += 1;
  if (next > trace.steps.length) return;
  go(next);
  stage.fly(trace.steps[place - 1]);
  wake();
}

function stepBack() {
  let before = place - 1;
  while (before > 0 && isHidden(before)) before -= 1;
  go(before);
}

function tellStep(loud) {
  // A sign of life that is not shown changes nothing that could be said: the step before it stands.
  let told = place;
  while (told > 0 && isHidden(told)) told -= 1;
  const step = told ? trace.steps[told - 1] : null, says = part("sim-says");
  if (told === place || loud) {
    says.textContent = step ? step.says : words.beginning;
    says.className = "says" + (step && step.doubled ? " broken" : step && step.kind === "fault" ? " fault" : "");
    // Who hears the page gets each step that is stepped to, and not more than can be said.
    if (loud || performance.now() - heardAt > HEARD_MS || (step && step.doubled)) {
      heardAt = performance.now();
      part("sim-heard").textContent = says.textContent;
    }
  }
  const slider = part("sim-place");
  slider.value = place;
  slider.setAttribute("aria-valuetext", filled(words.of_steps, { n: place, of: trace.steps.length }));
  markRow();
}

function markRow() {
  const rows = part("sim-rows"), marked = rows.querySelector("[aria-current]");
  const row = place ? rows.rows[place - 1] : null;
  if (marked === row) return;
  if (marked) marked.removeAttribute("aria-current");
  const box = part("sim-steps");
  if (!row) {
    box.scrollTop = 0;
    return;
  }
  row.setAttribute("aria-current", "step");
  if (row.offsetParent === null) return;
  const top = row.getBoundingClientRect().top - box.getBoundingClientRect().top;
  if (top < 40 || top > box.clientHeight - 60) box.scrollTop += top - box.clientHeight / 2;
}

function draw() {
  stage.draw(frames[place], now);
  const at = filled(words.at, { at: seconds(now) });
  say(part("sim-clock"), `${at} · ${filled(words.of_steps, { n: place, of: trace.steps.length })}`);
}

function play() {
  if (!trace) return;
  if (place >= trace.steps.length) go(0);
  playing = true;
  part("sim-play").textContent = words.pause;
  last = performance.now();
  wake();
}

function pause() {
  if (playing) part("sim-heard").textContent = part("sim-says").textContent;
  playing = false;
  part("sim-play").textContent = words.play;
}

let awake = false;
function wake() {
  if (!awake) {
    awake = true;
    requestAnimationFrame(tick);
  }
}

function tick(moment) {
  awake = false;
  const before = place;
  if (playing) {
    // A tab that was in the background goes on where it was, not where the clock is.
    const passed = Math.min(moment - last, 10 * FRAME_MS) * Number(part("sim-speed").value);
    last = moment;
    if (passed > 0) now += passed;
    while (place < trace.steps.length && trace.steps[place].at <= now) {
      place += 1;
      stage.fly(trace.steps[place - 1]);
      tellStep(false);
    }
    if (place >= trace.steps.length) pause();
  }
  // Where motion is not wanted the picture changes with each step, and stands still between them.
  if (trace && (!stage.still.matches || place !== before || !playing)) draw();
  if (playing || stage.busy) wake();
}

// The last seconds before a double write, slowly, and then it.
function showDouble() {
  go(Math.max(0, trace.doubled - 3));
  now = Math.max(now, trace.steps[trace.doubled].at - 5000);
  part("sim-speed").value = "2";
  play();
  player.scrollIntoView({ block: "start", behavior: stage.still.matches ? "auto" : "smooth" });
}

// ---- controls

part("sim-play").addEventListener("click", () => (playing ? pause() : play()));
part("sim-step").addEventListener("click", () => { pause(); stepOn(); });
part("sim-back").addEventListener("click", () => { pause(); stepBack(); });
part("sim-place").addEventListener("input", (event) => { pause(); go(Number(event.target.value)); });
part("sim-double").addEventListener("click", showDouble);
part("sim-shortest").addEventListener("click", () => load("story=shortest", { then: "play" }));
part("sim-beats").addEventListener("change", (event) => {
  part("sim-steps").classList.toggle("quiet", !event.target.checked);
});
part("sim-rows").addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-place]");
  if (row && trace) { pause(); go(Number(row.dataset.place)); }
});
part("sim-form").addEventListener("submit", (event) => {
  event.preventDefault();
  event.stopPropagation();
  load(formQuery());
});
// The switch shows at once what it does: with the same numbers, the same chance, and no fence.
part("f-fence").addEventListener("change", (event) => {
  load(formQuery(), { then: event.target.checked ? "double" : "rest" });
});

// Keys go to the player while the focus is in it and nothing there wants them; elsewhere they
// scroll the page as they always do.
player.addEventListener("keydown", (event) => {
  if (!trace || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, button, a, summary")) return;
  const acts = {
    " ": () => (playing ? pause() : play()),
    ArrowRight: () => { pause(); stepOn(); },
    ArrowLeft: () => { pause(); stepBack(); },
    Home: () => { pause(); go(0); },
    End: () => { pause(); go(trace.steps.length); },
  };
  if (!(event.key in acts)) return;
  event.preventDefault();
  acts[event.key]();
});
new ResizeObserver(() => { if (trace) draw(); }).observe(part("sim-stage"));

// ---- the tour: one stop at a time

const tour = part("tour"), stops = [...tour.querySelectorAll(".stop")];
let stop = 0;
function showStop(n, playIt) {
  stop = Math.max(0, Math.min(stops.length - 1, n));
  stops.forEach((each, place) => each.classList.toggle("shown", place === stop));
  part("tour-previous").disabled = stop === 0;
  part("tour-next").disabled = stop === stops.length - 1;
  part("tour-at").textContent = filled(tour.dataset.of, { n: stop + 1, of: stops.length });
  if (playIt) playStory(stops[stop].querySelector("[data-story]"));
}
function playStory(link) {
  part("sim-speed").value = "5";
  load(`story=${link.dataset.story}`, { then: link.dataset.play === "yes" ? "play" : "rest" });
}
tour.classList.add("scripted-tour");
tour.querySelector(".tour-moves").hidden = false;
for (const link of tour.querySelectorAll("[data-story]")) {
  link.setAttribute("role", "button");
  link.addEventListener("click", (event) => { event.preventDefault(); playStory(link); });
}
part("tour-previous").addEventListener("click", () => showStop(stop - 1, true));
part("tour-next").addEventListener("click", () => showStop(stop + 1, true));

document.querySelector(".scripted").hidden = false;
for (const each of document.querySelectorAll(".plain")) each.hidden = true;
part("sim-steps").classList.add("quiet");
showStop(0, false);
const given = new URLSearchParams(location.search);
for (const name of ["lang", "theme", "plain"]) given.delete(name);
load(given.size ? given.toString() : formQuery(), { keep: true });
