// `LlamaModel` behind pipes: a line of JSON in, a call; a line of JSON out, its result or its error.
//   node node_model.mjs LLAMA_JS MODEL_FOLDER [plain]      plain: as where WebAssembly has no SIMD
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [program, folder, plain] = process.argv.slice(2);
if (plain) WebAssembly.Module = class { constructor() { throw new Error("no SIMD"); } };
const LlamaModel = (0, eval)(readFileSync(program, "utf8"));
const model = new LlamaModel(
  new Uint8Array(readFileSync(`${folder}/model.safetensors`)), readFileSync(`${folder}/config.json`, "utf8"),
);
console.log(JSON.stringify({ vocab: model.vocab, maxLen: model.maxLen }));
for await (const line of createInterface({ input: process.stdin })) {
  const { method, numbers } = JSON.parse(line);
  const given = numbers.map((one, i) => (Array.isArray(one) ? (i === 6 ? Float64Array : Int32Array).from(one) : one));
  console.log(JSON.stringify([...(model[method](...given) ?? [])]));
}
