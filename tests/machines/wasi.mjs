// Runs a program of `wasm32-wasip1`: `node wasi.mjs PROGRAM.wasm ARGUMENTS...`. It sees no files and no environment.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const args = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args, env: {}, returnOnExit: true });
const program = await WebAssembly.instantiate(await readFile(args[0]), wasi.getImportObject());
process.exit(wasi.start(program.instance));
