// Everything works without this file; with it, pages change as things happen, and forms answer in place.
"use strict";

// What is on the page becomes what is in `fresh`, touching only what differs: scroll, focus, open details and
// what is being typed stay.
function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.hasAttribute("data-keep") || isBeingUsed(old)) return;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  morphChildren(old, fresh);
}

function isBeingUsed(element) {
  if (element.nodeName === "INPUT" || element.nodeName === "TEXTAREA") {
    return element === document.activeElement || element.value !== element.defaultValue
      || element.checked !== element.defaultChecked;
  }
  if (element.nodeName === "SELECT") {
    return element === document.activeElement
      || [...element.options].some((option) => option.selected !== option.defaultSelected);
  }
  return false;
}

function morphChildren(old, fresh) {
  const known = new Map();
  for (const child of old.children) if (child.id) known.set(child.id, child);
  let next = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const same = wanted.id && known.get(wanted.id);
    if (same && same !== next) old.insertBefore(same, next);
    if (same) {
      next = same.nextSibling;
      morph(same, wanted);
    } else if (next && !(next.id && next.id !== wanted.id)) {
      const current = next;
      next = next.nextSibling;
      morph(current, wanted);
    } else {
      old.insertBefore(wanted, next);
    }
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

// Pages that change: a stream says when, the page is asked for again.
const live = { source: null, asking: false, again: false };

async function refresh() {
  if (live.asking) {
    live.again = true;
    return;
  }
  live.asking = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Refresh": "1" }, redirect: "error" });
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      morph(document.querySelector("main"), fresh.querySelector("main"));
      const nav = fresh.querySelector(".side nav");
      if (nav) morph(document.querySelector(".side nav"), nav);
      showAges();
      document.dispatchEvent(new Event("refreshed"));
    }
  } catch {
    // The stream notices that the node is gone, and says so.
  } finally {
    live.asking = false;
    if (live.again) {
      live.again = false;
      refresh();
    }
  }
}

function listen() {
  const about = document.body.dataset.live;
  if (about === undefined || document.hidden || live.source) return;
  live.source = new EventSource("/live?about=" + encodeURIComponent(about));
  live.source.addEventListener("changed", refresh);
  // Something may have changed between the page and its stream.
  live.source.addEventListener("open", () => {
    document.documentElement.classList.remove("stale");
    refresh();
  });
  live.source.addEventListener("error", () => {
    document.documentElement.classList.add("stale");
    if (live.source.readyState === EventSource.CLOSED) {
      live.source = null;
      setTimeout(listen, 3000);
    }
  });
}

// What changes without a notice, such as what a command says, is asked for again while it is there.
setInterval(() => {
  if (!document.hidden && document.querySelector("[data-again]")) refresh();
}, 2000);

// A browser opens few connections to one host: pages that nobody looks at hold none.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && live.source) {
    live.source.close();
    live.source = null;
  } else if (!document.hidden) {
    listen();
  }
});

// "in 5 min" and "3 s ago", second by second.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function age(seconds) {
  const left = Math.abs(seconds);
  const at = UNITS.findIndex(([size]) => left >= size);
  if (at < 0) return "now";
  const [size, unit] = UNITS[at];
  const finer = UNITS[at + 1];
  let text = Math.floor(left / size) + " " + unit;
  const rest = finer ? Math.floor((left % size) / finer[0]) : 0;
  if (rest > 0) text += " " + rest + " " + finer[1];
  return seconds > 0 ? "in " + text : text + " ago";
}

function showAges() {
  for (const time of document.querySelectorAll("time[data-age]")) {
    const seconds = (Date.parse(time.dateTime) - Date.now() + skew) / 1000;
    const text = age(Math.round(seconds));
    if (time.textContent !== text) time.textContent = text;
  }
}

// The server's clock decides; this machine's may be wrong.
const skew = Date.now() - Date.parse(document.body.dataset.now || new Date().toISOString());

// Forms answer in place: mistakes beside their fields, nothing typed is lost.
function sayWrong(form, problem) {
  for (const old of form.querySelectorAll(".wrong, .said.is-bad")) old.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  const left = [];
  for (const wrong of problem.errors || []) {
    const path = wrong.path.replace(/\[\d+\]/g, "");
    const named = (name) => [...form.elements].find((element) =>
      element.name && !element.disabled && element.type !== "hidden" && element.name.split(":")[0] === name);
    const field = named(path) || named(path.split(".")[0]);
    const text = wrong.message + (wrong.allowed ? "; allowed: " + wrong.allowed : "")
      + (wrong.remedy ? "; try: " + wrong.remedy : "") + (wrong.line ? " (line " + wrong.line + ")" : "");
    if (field) {
      field.setAttribute("aria-invalid", "true");
      const said = document.createElement("p");
      said.className = "wrong";
      said.textContent = text;
      (field.closest(".field") || field.parentNode).append(said);
      const folded = field.closest("details:not([open])");
      if (folded) folded.open = true;
    } else {
      left.push((wrong.path ? wrong.path + ": " : "") + text);
    }
  }
  if (left.length > 0 || (problem.errors || []).length === 0) {
    const said = document.createElement("div");
    said.className = "said is-bad";
    said.setAttribute("role", "alert");
    said.textContent = left.length > 0 ? left.join("\n") : problem.detail;
    form.append(said);
  }
  const first = form.querySelector("[aria-invalid]");
  if (first) first.focus();
}

async function send(form, button) {
  const body = new URLSearchParams(new FormData(form, button));
  const action = (button && button.getAttribute("formaction")) || form.getAttribute("action");
  const pressed = [...form.querySelectorAll("button")];
  pressed.forEach((one) => { one.disabled = true; });
  try {
    const answer = await fetch(action, { method: "POST", body, headers: { Accept: "application/json" } });
    const said = await answer.json();
    if (!answer.ok) {
      sayWrong(form, said);
    } else if (said.next === location.pathname + location.search) {
      form.reset();
      const dialog = form.closest("details[open]");
      if (dialog) dialog.open = false;
      await refresh();
    } else {
      location.assign(said.next);
    }
  } catch {
    sayWrong(form, { detail: "The node does not answer. Nothing may have been changed." });
  } finally {
    pressed.forEach((one) => { one.disabled = false; });
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const question = (event.submitter && event.submitter.dataset.ask) || form.dataset.ask;
  if (question && !confirm(question)) {
    event.preventDefault();
    return;
  }
  const action = (event.submitter && event.submitter.getAttribute("formaction")) || form.getAttribute("action") || "";
  const isLook = event.submitter && event.submitter.name.startsWith("_look");
  const isOurs = form.hasAttribute("data-in-place") || action.startsWith("/forms/");
  if (form.method === "post" && isOurs && !isLook) {
    event.preventDefault();
    send(form, event.submitter);
  } else if (event.submitter && event.submitter.dataset.into) {
    event.preventDefault();
    look(form, action, event.submitter.dataset.into);
  }
});

// What a page says about a form, shown in a part of this one: what is being written stays as it is.
async function look(form, action, part) {
  const body = new URLSearchParams(new FormData(form));
  try {
    const answer = await fetch(action, { method: "POST", body, headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const wanted = fresh.getElementById(part) || fresh.querySelector("main .said");
    const into = document.getElementById(part);
    if (wanted) into.replaceChildren(...(wanted.id === part ? wanted.childNodes : [wanted]));
    into.scrollIntoView({ block: "nearest" });
  } catch {
    sayWrong(form, { detail: "The node does not answer." });
  }
}

// What a form would mean, while it is being written.
const previews = new Map();

async function preview(form) {
  const into = document.getElementById(form.dataset.previewInto);
  const query = new URLSearchParams(new FormData(form));
  query.delete("_key");
  const turn = (previews.get(form) || 0) + 1;
  previews.set(form, turn);
  const answer = await fetch(form.dataset.preview + "?" + query, { headers: { "X-Refresh": "1" } });
  if (previews.get(form) !== turn) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const wanted = fresh.getElementById(form.dataset.previewInto);
  if (into && wanted) morph(into, wanted);
}

let pause = 0;
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (form && form.dataset.preview) {
    clearTimeout(pause);
    pause = setTimeout(() => preview(form), 200);
  }
  if (event.target.dataset.all) {
    for (const box of document.getElementsByName(event.target.dataset.all)) box.checked = event.target.checked;
  }
});

// Fields that belong to one choice are shown with it.
function showChosen() {
  for (const part of document.querySelectorAll("[data-when]")) {
    const [name, values] = part.dataset.when.split("=");
    const chosen = document.querySelector(`[name="${name}"]:checked, select[name="${name}"]`);
    const shown = chosen !== null && values.split("|").includes(chosen.value);
    part.hidden = !shown;
    if (part.nodeName === "FIELDSET") part.disabled = !shown;
    for (const field of part.querySelectorAll("input, select, textarea")) field.disabled = !shown;
  }
}
document.addEventListener("change", showChosen);
document.addEventListener("refreshed", showChosen);

// Keys: / to search, g and a letter to go somewhere.
let going = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  } else if (going) {
    const link = document.querySelector(`.side a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
    going = false;
  } else {
    going = event.key === "g";
  }
});

// The zone of this browser, unless somebody chose another one.
if (!/(^|; )punctual_zone=/.test(document.cookie)) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) {
    document.cookie = "punctual_zone=" + encodeURIComponent(zone) + "; path=/; max-age=31536000; samesite=lax";
    if (document.body.dataset.zone !== zone) refresh();
  }
}

showChosen();
showAges();
setInterval(showAges, 1000);
listen();
