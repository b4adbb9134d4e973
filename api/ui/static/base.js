// What every page does by script: dialogs that close again, and fragments that arrive live. Without
// it the pages read and work as well; they only have to be loaded again.
"use strict";

// Make `old` look like `fresh`, touching only what differs: focus, selection, scrolling and open
// folds stay. Elements are matched by id or data-key, else by place and name.
function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.tagName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  morphChildren(old, fresh);
}

function keyOf(node) {
  return node.nodeType === 1 ? node.id || node.dataset.key || "" : "";
}

function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted);
    let found = key ? keyed.get(key) : null;
    if (!found && at && !key && !keyOf(at) && at.nodeName === wanted.nodeName) found = at;
    if (!found || found.nodeName !== wanted.nodeName) {
      old.insertBefore(wanted, at);
      continue;
    }
    keyed.delete(key);
    if (found === at) at = at.nextSibling;
    else old.insertBefore(found, at);
    if (found.nodeType !== 1) {
      if (found.nodeValue !== wanted.nodeValue) found.nodeValue = wanted.nodeValue;
    } else morph(found, wanted);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// Show the fragments { id: html }: the content of each element is brought up to date.
function showParts(parts) {
  for (const [id, html] of Object.entries(parts)) {
    const element = document.getElementById(id);
    if (!element) continue;
    const fresh = element.cloneNode(false);
    fresh.innerHTML = html;
    morphChildren(element, fresh);
  }
  document.dispatchEvent(new CustomEvent("chot:parts", { detail: parts }));
}

function follow(live) {
  const said = live.querySelector(".live-said");
  const show = (state, words) => {
    live.classList.toggle("on", state === "on");
    live.classList.toggle("off", state === "off");
    if (said.textContent !== words) said.textContent = words;
  };
  let stream = null, again = null;
  // No place is left: the page reads itself, and asks for a place again each minute.
  const readItself = async (left) => {
    again = null;
    show("self", live.dataset.full);
    try {
      const place = live.dataset.stream + (live.dataset.stream.includes("?") ? "&" : "?") + "once=1";
      const answer = await fetch(place, { headers: { Accept: "application/json" } });
      if (!answer.ok || answer.redirected) throw new Error(answer.status);
      showParts(await answer.json());
    } catch {
      show("off", live.dataset.off);
    }
    again = setTimeout(left > 0 ? () => readItself(left - 1) : begin, 10000);
  };
  const begin = () => {
    stream = new EventSource(live.dataset.stream);
    stream.addEventListener("parts", (event) => {
      showParts(JSON.parse(event.data));
      show("on", live.dataset.on);
    });
    // The stream stands, but what it tells of cannot be read: what is shown is of before.
    stream.addEventListener("blind", () => show("off", live.dataset.blind));
    stream.addEventListener("full", () => {
      stream.close();
      readItself(5);
    });
    stream.addEventListener("login", () => {
      stream.close();
      show("off", live.dataset.ended + " ");
      const link = document.createElement("a");
      link.href = "/ui/login?ended=1&next=" + encodeURIComponent(location.pathname + location.search);
      link.textContent = live.dataset.login;
      said.append(link);
    });
    // A refusal ends it for good (a session that is over, a server that is full): try by and by.
    stream.addEventListener("error", () => {
      show("off", live.dataset.off);
      if (stream.readyState === EventSource.CLOSED) setTimeout(begin, 5000);
    });
  };
  begin();
  // A page that goes frees its place at once; one that comes back from the cache follows again.
  addEventListener("pagehide", () => {
    stream.close();
    clearTimeout(again);
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) begin();
  });
}

document.addEventListener("click", (event) => {
  const close = event.target.closest("[data-close]");
  if (!close) return;
  const fold = close.closest("details");
  fold.open = false;
  fold.querySelector("summary").focus();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const fold = document.activeElement && document.activeElement.closest("details.confirm[open]");
  if (!fold) return;
  fold.open = false;
  fold.querySelector("summary").focus();
});

// A form that is on its way is not sent twice.
document.addEventListener("submit", (event) => {
  for (const button of event.target.querySelectorAll("button:not([type=button])")) {
    setTimeout(() => { button.disabled = true; }, 0);
  }
});
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("form button[disabled]:not([data-off])")) button.disabled = false;
});

for (const live of document.querySelectorAll("[data-stream]")) follow(live);
