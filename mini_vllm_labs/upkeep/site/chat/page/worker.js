// The page's server: Pyodide, the engine, and the model beside it. Messages: see tab.js.

const BLOCKS = 57, BLOCK_SIZE = 8;
const OPEN = `
import asyncio
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm_labs.serving.live.tab import TabServer

config = EngineConfig(max_num_seqs=8, max_num_batched_tokens=64, block_size=${BLOCK_SIZE}, num_gpu_blocks=${BLOCKS})
server = TabServer(build_engine(config, parse_lineup("solution:1-5"), dense=True), "the embedded model")
server.pace.set(20)  # the blocks move while the answer is read; the menu has full speed
steps = asyncio.get_event_loop().create_task(server.tab.run())
`;
const tell = (message) => self.postMessage(message);

async function open() {
  const indexURL = new URL("../pyodide/", self.location).href;
  tell({ progress: "Loading Python, 5 MB ..." });
  const { loadPyodide } = await import(`${indexURL}pyodide.mjs`);
  const python = await loadPyodide({ indexURL });
  tell({ progress: "Loading the engine and the model, 5 MB ..." });
  const zip = await fetch(new URL("engine.zip", self.location));
  if (!zip.ok) throw new Error(`engine.zip cannot be read: the server answered with status ${zip.status}`);
  python.unpackArchive(await zip.arrayBuffer(), "zip", { extractDir: "/engine" });
  python.runPython("import sys; sys.path.insert(0, '/engine')");
  await python.runPythonAsync(OPEN);
  return python.globals.get("server");
}

const opening = open();
opening.then(() => tell({ ready: true }), (error) => tell({ failed: lastLine(error) }));

// Of Python's traceback the words for people.
function lastLine({ message }) {
  const line = message.trim().split("\n").at(-1);
  return line.replace(/^[\w.]*Error: /, "");
}

self.onmessage = async ({ data: { number, path, body, name, leaves } }) => {
  const server = await opening;
  if (leaves) server.leave(number);
  else server.ask(number, path, body, name, (kind, value) => tell({ number, kind, value }));
};
