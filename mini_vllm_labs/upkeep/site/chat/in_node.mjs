// The page's worker without a page: Pyodide, the compiled engine and the model, under Node and without network.
//   node in_node.mjs SITE < SCRIPT.py
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const site = resolve(process.argv[2]);
const { loadPyodide } = await import(pathToFileURL(`${site}/pyodide/pyodide.mjs`));
const python = await loadPyodide({ indexURL: `${site}/pyodide/` });
python.unpackArchive(new Uint8Array(readFileSync(`${site}/chat/engine.zip`)), "zip", { extractDir: "/engine" });
python.FS.writeFile("/engine/mini_vllm/embedded_model/model.safetensors", readFileSync(`${site}/pyodide/model.safetensors`));
python.runPython("import sys; sys.path.insert(0, '/engine')");
await python.runPythonAsync(readFileSync(0, "utf8"));
