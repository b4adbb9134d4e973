// The simulator's drawing: it puts a frame (what workers and jobs are after a step) and a moment
// of simulated time on the stage. It decides nothing; simulator.js says which frame, and when.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const GAP = 10, HEAD = 24, JOB_HEIGHT = 78, WORKER_HEIGHT = 62, DOT = 7, WIDE = 720;

function drawn(name, attributes, parent, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

// Set what differs, so that a still picture costs nothing.
function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    const said = String(value);
    if (node.getAttribute(key) !== said) node.setAttribute(key, said);
  }
}

function say(node, words) {
  if (node.textContent !== words) node.textContent = words;
}

function filled(words, values) {
  return words.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
}

class Stage {
  constructor(box, words) {
    this.box = box;
    this.words = words;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.flying = [];
    this.width = 0;
  }

  workerName(index) { return filled(this.words.worker, { name: String.fromCharCode(65 + index) }); }
  jobName(index) { return filled(this.words.job, { n: index + 1 }); }

  // A new trace: another plan, other rows.
  begin(plan) {
    this.plan = plan;
    this.width = 0;
    this.flying = [];
  }

  fit() {
    const width = Math.max(280, this.box.clientWidth - 2);
    if (width === this.width) return;
    this.width = width;
    this.build();
  }

  // Where everything stands: three columns, or one below the other on a phone.
  build() {
    const { jobs, workers } = this.plan, w = this.width, wide = w >= WIDE;
    const column = wide ? Math.floor((w - 4 * GAP) / 10) : w - 2 * GAP;
    const jobsTop = HEAD + GAP, jobsHigh = jobs * (JOB_HEIGHT + GAP);
    const middle = wide
      ? { x: column * 5 + 2 * GAP, y: jobsTop, w: column * 2, h: 84 }
      : { x: GAP, y: jobsTop + jobsHigh + HEAD, w: column, h: 40 };
    const right = wide
      ? { x: column * 7 + 3 * GAP, y: jobsTop, w: column * 3 }
      : { x: GAP, y: middle.y + middle.h + HEAD + GAP, w: column };
    const workersHigh = workers * (WORKER_HEIGHT + GAP);
    this.height = wide
      ? Math.max(jobsTop + jobsHigh, jobsTop + workersHigh, jobsTop + 2 * middle.h + HEAD) + GAP
      : right.y + workersHigh + GAP;
    const half = Math.floor((middle.w - GAP) / 2);
    this.outbox = wide ? middle : { ...middle, w: half };
    this.queue = wide
      ? { ...middle, y: middle.y + middle.h + HEAD + GAP }
      : { ...middle, x: middle.x + half + GAP, w: half };
    this.svg = drawn("svg", {
      width: w, height: this.height, viewBox: `0 0 ${w} ${this.height}`, "aria-hidden": "true",
    });
    for (const each of [this.outbox, this.queue]) {
      drawn("rect", { class: "box", x: each.x, y: each.y, width: each.w, height: each.h, rx: 6 }, this.svg);
    }
    this.ties = drawn("g", {}, this.svg);
    this.heading(this.words.database, GAP, jobsTop - 8);
    this.heading(this.words.outbox, this.outbox.x, this.outbox.y - 8);
    this.heading(this.words.queue, this.queue.x, this.queue.y - 8);
    this.heading(this.words.workers, right.x, right.y - 8);
    const jobWide = wide ? column * 5 : column;
    this.jobs = Array.from({ length: jobs }, (_, n) =>
      this.jobBox(n, GAP, jobsTop + n * (JOB_HEIGHT + GAP), jobWide));
    this.workers = Array.from({ length: workers }, (_, n) =>
      this.workerBox(n, right.x, right.y + n * (WORKER_HEIGHT + GAP), right.w));
    this.mail = drawn("g", {}, this.svg);
    this.air = drawn("g", {}, this.svg);
    this.mailShown = "";
    this.box.replaceChildren(this.svg);
  }

  heading(words, x, y) { drawn("text", { class: "head", x, y }, this.svg, words); }

  jobBox(number, x, y, w) {
    const group = drawn("g", {}, this.svg);
    const box = drawn("rect", { class: "box", x, y, width: w, height: JOB_HEIGHT, rx: 6 }, group);
    drawn("text", { class: "name", x: x + 10, y: y + 20 }, group, this.jobName(number));
    const state = drawn("text", { class: "quiet", x: x + w - 10, y: y + 20, "text-anchor": "end" }, group);
    const pieces = this.plan.pieces, each = Math.min(84, (w - 20 - (pieces - 1) * 4) / pieces);
    const marks = Array.from({ length: pieces }, (_, n) => {
      const left = x + 10 + n * (each + 4);
      return {
        rect: drawn("rect", { class: "piece", x: left, y: y + 28, width: each, height: 20, rx: 3 }, group),
        text: drawn("text", { class: "fences", x: left + each / 2, y: y + 42 }, group),
      };
    });
    const barWide = w - 130;
    const track = drawn("rect", { class: "track", x: x + 10, y: y + 58, width: barWide, height: 8, rx: 4 }, group);
    const lease = drawn("rect", { class: "lease", x: x + 10, y: y + 58, width: 0, height: 8, rx: 4 }, group);
    const left = drawn("text", { class: "quiet", x: x + w - 10, y: y + 67, "text-anchor": "end" }, group);
    return { box, state, marks, track, lease, left, barWide, x, y, w, middle: y + JOB_HEIGHT / 2 };
  }

  workerBox(number, x, y, w) {
    const group = drawn("g", {}, this.svg);
    const box = drawn("rect", { class: "box", x, y, width: w, height: WORKER_HEIGHT, rx: 6 }, group);
    drawn("text", { class: "name", x: x + 10, y: y + 20 }, group, this.workerName(number));
    const doing = drawn("text", { class: "quiet", x: x + w - 10, y: y + 20, "text-anchor": "end" }, group);
    const what = drawn("text", { x: x + 10, y: y + 39 }, group);
    const message = drawn("circle", { class: "message", cx: x + w - 17, cy: y + 35, r: 0 }, group);
    const barWide = w - 20;
    drawn("rect", { class: "track", x: x + 10, y: y + 48, width: barWide, height: 6, rx: 3 }, group);
    const work = drawn("rect", { class: "work", x: x + 10, y: y + 48, width: 0, height: 6, rx: 3 }, group);
    return { box, doing, what, message, work, barWide, x, y, w, middle: y + WORKER_HEIGHT / 2 };
  }

  draw(frame, now) {
    this.fit();
    frame.jobs.forEach((job, n) => this.drawJob(this.jobs[n], job, now));
    frame.workers.forEach((worker, n) => this.drawWorker(this.workers[n], worker, now));
    this.drawTies(frame);
    this.drawMail(frame, now);
    this.drawFlying();
  }

  drawJob(at, job, now) {
    const kind = job.state === "running" ? "owner" : job.state === "succeeded" ? "ended" : job.state;
    set(at.box, { class: `box ${kind}` });
    const fence = job.fence ? ` · ${this.words.fence} ${job.fence}` : "";
    say(at.state, this.words["state." + job.state] + fence);
    const next = job.effects.findIndex((fences) => !fences.length);
    job.effects.forEach((fences, n) => {
      const mark = at.marks[n];
      const kindOf = fences.length > 1 ? "twice" : fences.length ? "written"
        : n === next && job.state === "running" ? "next" : "";
      set(mark.rect, { class: `piece ${kindOf}` });
      say(mark.text, fences.join("+"));
    });
    const left = job.lease === null ? 0 : Math.max(0, job.lease - now) / 1000;
    const share = Math.min(1, left / this.plan.lease);
    set(at.track, { width: job.state === "running" ? at.barWide : 0 });
    set(at.lease, { width: (at.barWide * share).toFixed(1), class: share < 0.34 ? "lease low" : "lease" });
    set(at.left, { class: job.expired ? "quiet alarm" : "quiet" });
    say(at.left, job.expired ? this.words.expired
      : job.lease === null ? "" : `${this.words.lease} ${Math.ceil(left)} s`);
  }

  drawWorker(at, worker, now) {
    const down = worker.pc === "idle" && worker.until > now && worker.until - worker.since > 3000;
    const kind = [worker.zombie ? "zombie" : worker.fence !== null ? "owner" : "",
      worker.paused ? "paused" : "", down ? "down" : ""].join(" ");
    set(at.box, { class: `box ${kind}` });
    const doing = worker.paused ? "paused" : down ? "down" : worker.zombie ? "zombie" : worker.pc;
    set(at.doing, { class: worker.zombie ? "quiet alarm" : "quiet" });
    say(at.doing, this.words["doing." + doing]);
    const piece = worker.piece ? ` · ${this.words.piece} ${Math.min(worker.piece, this.plan.pieces)}` : "";
    const fence = worker.fence === null ? "" : ` · ${this.words.fence} ${worker.fence}`;
    say(at.what, worker.job === null ? "" : this.jobName(worker.job) + fence + piece);
    set(at.message, { r: worker.hidden === null ? 0 : 6 });
    // A frozen worker's bar stands still: it does not know that time passes.
    const share = worker.paused ? worker.share : worker.pc !== "ready" && !down ? 0
      : Math.min(1, Math.max(0, (now - worker.since) / (worker.until - worker.since || 1)));
    set(at.work, { width: (at.barWide * share).toFixed(1) });
  }

  drawTies(frame) {
    const wanted = frame.workers.map((worker, n) => worker.job === null || worker.fence === null ? ""
      : this.tiePath(this.jobs[worker.job], this.workers[n], n));
    while (this.ties.childNodes.length < wanted.length) drawn("path", { class: "tie" }, this.ties);
    wanted.forEach((path, n) => set(this.ties.childNodes[n], {
      d: path || "M0 0", class: frame.workers[n].zombie ? "tie zombie" : "tie",
    }));
  }

  tiePath(job, worker, n) {
    if (this.width >= WIDE) {
      const bend = 30 + n * 8;
      return `M${job.x + job.w} ${job.middle}C${job.x + job.w + bend} ${job.middle} `
        + `${worker.x - bend} ${worker.middle} ${worker.x} ${worker.middle}`;
    }
    const edge = job.x + job.w - 1, out = edge + GAP - 2 - n * 2;
    return `M${edge} ${job.middle}H${out}V${worker.middle}H${edge}`;
  }

  // Slips and messages: few, so they are put there anew when something about them changes.
  drawMail(frame, now) {
    const slips = frame.jobs.flatMap((job, n) => job.rows.map(() => n));
    const messages = frame.jobs.flatMap((job, n) => job.messages.map((at) => [n, at > now]));
    const shown = JSON.stringify([slips, messages]);
    if (shown === this.mailShown) return;
    this.mailShown = shown;
    this.mail.replaceChildren();
    slips.forEach((job, n) => {
      const { x, y } = this.slot(this.outbox, n);
      drawn("rect", { class: "slip", x: x - 8, y: y - 9, width: 16, height: 18, rx: 2 }, this.mail);
      drawn("text", { x, y: y + 5, "text-anchor": "middle" }, this.mail, job + 1);
    });
    messages.forEach(([job, unseen], n) => {
      const { x, y } = this.slot(this.queue, n);
      drawn("circle", { class: unseen ? "message unseen" : "message", cx: x, cy: y, r: 10 }, this.mail);
      drawn("text", { x, y: y + 5, "text-anchor": "middle" }, this.mail, job + 1);
    });
  }

  slot(place, n) {
    const across = Math.max(1, Math.floor((place.w - 12) / 26));
    return { x: place.x + 19 + (n % across) * 26, y: place.y + 19 + Math.floor(n / across) * 24 };
  }

  centre(place) { return { x: place.x + place.w / 2, y: place.y + (place.h || WORKER_HEIGHT) / 2 }; }

  // Something small goes from one place to another; not where motion is not wanted.
  fly(step) {
    if (this.still.matches || !this.svg) return;
    const way = this.way(step);
    if (!way) return;
    const [from, to, kind] = way;
    if (this.flying.length > 20) this.flying.shift().node.remove();
    const node = drawn("circle", { class: `fly ${kind}`, r: DOT, cx: from.x, cy: from.y }, this.air);
    this.flying.push({ node, from, to, began: performance.now() });
  }

  way(step) {
    const job = step.job === null ? null : this.jobs[step.job];
    const worker = step.worker === null ? null : this.workers[step.worker];
    const desk = job && { x: job.x + 60, y: job.middle };
    const hand = worker && { x: worker.x + 20, y: worker.middle };
    const queue = this.centre(this.queue), outbox = this.centre(this.outbox);
    switch (step.action) {
      case "relay_publish": return [outbox, queue, ""];
      case "receive": return [queue, hand, ""];
      case "put_off": case "redeliver": case "crash": return [hand, queue, ""];
      case "submit": case "reap": case "reconcile": return [desk, outbox, ""];
      case "claim": case "read_input": return [desk, hand, "write"];
      case "commit_chunk": case "complete": return [hand, desk, step.doubled ? "bad" : "write"];
      case "lose_lease": return [desk, hand, "bad"];
      case "beat": case "renew": return [hand, desk, ""];
      case "lose": return [queue, { x: queue.x, y: this.height + 20 }, "bad"];
      default: return null;
    }
  }

  drawFlying() {
    const now = performance.now();
    this.flying = this.flying.filter((each) => {
      const share = (now - each.began) / 450;
      if (share >= 1) {
        each.node.remove();
        return false;
      }
      const eased = 1 - (1 - share) ** 3;
      set(each.node, {
        cx: (each.from.x + (each.to.x - each.from.x) * eased).toFixed(1),
        cy: (each.from.y + (each.to.y - each.from.y) * eased).toFixed(1),
      });
      return true;
    });
  }

  get busy() { return this.flying.length > 0; }
}
