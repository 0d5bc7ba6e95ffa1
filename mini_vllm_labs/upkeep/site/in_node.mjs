// Pyodide under Node, as the browser's kernel has it: the site's own lock, wheels and boot module, no network.
//   node in_node.mjs PYODIDE_FOLDER DRIVE_FOLDER < SCRIPT.py
// DRIVE_FOLDER is the learner's drive. The script is run with the course on the path; its standard output is ours.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, drive] = process.argv.slice(2).map((path) => resolve(path));
const quiet = { messageCallback: () => {} };
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: `${folder}/` });
await python.loadPackage(["pytest", "pytest-timeout", "rich", "typer", "ipython", "anywidget", "mini-vllm-course"], quiet);
python.FS.mkdirTree("/drive");
python.FS.mount(python.FS.filesystems.NODEFS, { root: drive }, "/drive");
python.FS.mkdirTree("/drive/notebooks");
python.FS.chdir("/drive/notebooks");
await python.runPythonAsync("import mini_vllm_course; mini_vllm_course.unpack(); mini_vllm_course.bring_edits()");
await python.runPythonAsync(readFileSync(0, "utf8"));
