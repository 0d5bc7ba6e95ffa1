// Around JupyterLab: what a browser must have, one tab at a time, and the learner's work as a zip, out and in again.
import { unzipped, zipped } from "./zip.js";

const OURS = /^labs\/phase\d+_[a-z_]+\/starter\.py$|^notebooks\/[\w.-]+\.(ipynb|json)$/;
const STARTER = /^labs\/phase\d+_[a-z_]+\/starter\.py$/;
const LOCK = "mini-vllm-labs";

function stop(text) {
  window.stop();  // nothing more of the lab is loaded, so nothing of it can save
  const page = document.createElement("div");
  page.id = "mini-vllm-stop";
  page.setAttribute("role", "alert");
  page.append(Object.assign(document.createElement("p"), { textContent: text }));
  document.body.append(page);
}

function say(text) {
  document.getElementById("mini-vllm-notice")?.remove();
  const notice = Object.assign(document.createElement("div"), { id: "mini-vllm-notice", textContent: text });
  notice.setAttribute("role", "status");
  const close = Object.assign(document.createElement("button"), { textContent: "Close", onclick: () => notice.remove() });
  notice.append(close);
  document.body.append(notice);
}

function missing() {
  if (typeof WebAssembly !== "object") return "WebAssembly, which is switched off or not there";
  if (!("locks" in navigator) || typeof DecompressionStream !== "function") return "features that came in 2023";
  return "";
}

const contents = () => window.jupyterapp.serviceManager.contents;
const textOf = ({ format, content }) => format === "json" ? JSON.stringify(content, null, 1) : content;

async function everyOpenFileSaved() {
  await window.jupyterapp.commands.execute("docmanager:save-all").catch(() => {});
}

/** Return { path: text } of the learner's files: the starters, and what the notebooks keep. */
export async function work() {
  await everyOpenFileSaved();
  const files = {};
  for (const folder of ["labs", "notebooks"]) {
    const { content } = await contents().get(folder, { content: true });
    const inside = folder === "labs" ? content.filter(({ type }) => type === "directory") : [{ path: folder }];
    for (const { path } of inside)
      for (const entry of (await contents().get(path, { content: true })).content)
        if (OURS.test(entry.path)) files[entry.path] = textOf(await contents().get(entry.path, { content: true }));
  }
  return files;
}

export async function exported() {
  const files = await work();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(zipped(files));
  link.download = "my_work.zip";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  const count = Object.keys(files).filter((path) => STARTER.test(path)).length;
  say(`Exported ${count} starters and your notebooks: my_work.zip.\n`
    + "In a local installation, `mini-vllm bring my_work.zip` puts the starters in place and keeps what they replace; "
    + "`mini-vllm judge my_work.zip` grades it.");
}

/** Put the files of a zip into the lab; what they replace is kept in `kept/`. Returns the paths that changed. */
export async function imported(buffer) {
  const files = await unzipped(buffer, (path) => OURS.test(path));
  if (!Object.keys(files).some((path) => STARTER.test(path)))
    throw new Error("it has no labs/phaseN_.../starter.py, so it is no export of this lab");
  for (const [path, text] of Object.entries(files)) if (/\.(ipynb|json)$/.test(path)) JSON.parse(text);
  const now = await work(), changed = Object.keys(files).filter((path) => files[path] !== now[path]);
  const place = `kept/${new Date().toISOString().slice(0, 19).replace(/:/g, "-")}`;
  for (const path of changed) if (path in now) await save(`${place}/${path}`, now[path]);
  for (const path of changed) await save(path, files[path]);
  return { changed, place };
}

async function save(path, text) {
  const parts = path.split("/").slice(0, -1);
  for (let depth = 1; depth <= parts.length; depth++) {
    const folder = parts.slice(0, depth).join("/");
    const there = await contents().get(folder, { content: false }).catch(() => null);
    if (!there) await contents().save(folder, { type: "directory", name: parts[depth - 1], path: folder, format: "json" });
  }
  const isNotebook = path.endsWith(".ipynb");
  await contents().save(path, {
    type: isNotebook ? "notebook" : "file", format: isNotebook ? "json" : "text",
    content: isNotebook ? JSON.parse(text) : text,
  });
}

async function chosen(file) {
  try {
    const { changed, place } = await imported(await file.arrayBuffer());
    say(changed.length ? `Imported ${changed.length} files. What they replaced is in ${place}/.\nOpen files are loaded anew with the page.`
      : "Nothing to import: all files are as they are in the zip.");
    if (changed.length) document.querySelector("#mini-vllm-notice button").onclick = () => location.reload();
  } catch (error) {
    say(`${file.name} was not imported, nothing was changed: ${error.message}.`);
  }
}

function addBar() {
  const bar = Object.assign(document.createElement("div"), { id: "mini-vllm-bar" });
  const button = (text, title, onclick) => Object.assign(document.createElement("button"), { textContent: text, title, onclick });
  const input = Object.assign(document.createElement("input"), { type: "file", accept: ".zip", hidden: true });
  input.onchange = () => { if (input.files[0]) chosen(input.files[0]); input.value = ""; };
  bar.append(
    Object.assign(document.createElement("a"), { href: "../../install/index.html", textContent: "Install it", target: "_blank" }),
    button("Export my work", "A zip of your starters and notebooks", () =>
      exported().catch((error) => say(`Nothing was exported: ${error.message}.`))),
    button("Import", "A zip that was exported here", () => input.click()),
    input,
  );
  document.body.append(bar);
}

async function checkStorage() {
  if (!("serviceWorker" in navigator))
    return "This page has no service worker (a private window, or not https). What you edit does not reach your engine.";
  try {
    await new Promise((resolve, reject) => {
      const asked = indexedDB.open("mini-vllm-labs-probe");
      asked.onsuccess = () => { asked.result.close(); resolve(); };
      asked.onerror = () => reject(asked.error);
    });
  } catch {
    return "This browser keeps nothing for this page (a private window?). Your work is lost when you close the tab.";
  }
  if (await navigator.storage?.persist?.()) return "";
  return "Your work is kept in this browser only, and the browser may remove it when its disk is full.";
}

async function alone() {
  for (let left = 5; left > 0; left--) {  // the page before a reload may not have let go yet
    const got = await new Promise((resolve) => navigator.locks.request(LOCK, { ifAvailable: true }, (lock) => {
      resolve(Boolean(lock));
      return lock ? new Promise(() => {}) : undefined;  // held until the tab is closed
    }));
    if (got) return true;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  return false;
}

async function start() {
  const lacks = missing();
  if (lacks) return stop(`The lab needs ${lacks}. Take a current Firefox, Chrome, Edge or Safari, or install the course: see its README.`);
  if (!(await alone()))
    return stop("The lab is open in another tab. Two tabs would overwrite each other's files: go on there, or close it and load this page again.");
  addBar();
  const warning = await checkStorage();
  if (warning) say(`${warning}\nExport your work before you leave.`);
}

window.miniVLLM = { exported, imported, work };
start();
