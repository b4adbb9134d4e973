// A job's page and dead letters: which buttons fit the state that is shown now, questions as real
// dialogs, and text that can be copied. Without it all of it works, by a fold in the dialog's place.
"use strict";

// The buttons stand outside the live parts, since their forms hold a token of the session's own.
function fitState() {
  const shown = document.querySelector("#job-head [data-state]");
  if (!shown) return;
  for (const part of document.querySelectorAll("[data-when]")) {
    const fits = part.dataset.when.split(" ").includes(shown.dataset.state);
    if (part.hidden === fits) part.hidden = !fits;
    const dialog = part.querySelector("dialog[open]");
    if (!fits && dialog) dialog.close();
  }
}
document.addEventListener("chot:parts", fitState);

for (const fold of document.querySelectorAll("details.confirm")) {
  const summary = fold.querySelector("summary");
  const form = fold.querySelector("form");
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", summary.textContent.trim());
  const opener = document.createElement("button");
  opener.type = "button";
  opener.className = summary.className;
  opener.textContent = summary.textContent.trim();
  opener.setAttribute("aria-haspopup", "dialog");
  dialog.append(form);
  fold.after(opener, dialog);
  fold.remove();
  opener.id = fold.id;
  opener.addEventListener("click", () => dialog.showModal());
  form.querySelector("[data-close]").addEventListener("click", (event) => {
    event.stopPropagation();
    dialog.close();
  });
  dialog.addEventListener("close", () => opener.focus());
}

// A drawing that is wider than its window opens where something happens: at what runs now, with what
// comes next beside it, else at its newest end. It is the reader's own to move from then on.
for (const drawing of document.querySelectorAll(".drawing")) {
  const now = drawing.querySelector(".now");
  const left = drawing.getBoundingClientRect().left - drawing.scrollLeft;
  drawing.scrollLeft = now
    ? now.getBoundingClientRect().left - left - 0.75 * drawing.clientWidth
    : drawing.scrollWidth;
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    const said = button.textContent;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = button.dataset.copied;
    setTimeout(() => { button.textContent = said; }, 2000);
  });
}

// A link to a fold that is shut opens it.
function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && target.closest("details");
  if (fold) fold.open = true;
}
addEventListener("hashchange", openTarget);
openTarget();
