/**
 * Zstandard, decoding only, by the WebAssembly build in the package `zstddec`, loaded on first use.
 * We take its compiled module and drive the streaming interface ourselves, because the package's
 * own loop neither ends on corrupt input nor frees its memory then. Invariant: output is capped,
 * and an instance that failed or has grown large is dropped with all its memory.
 */
import { corrupt, tooLarge } from './output.ts';

const format = 'zstd';
/** Above this an instance is not kept for the next batch. */
const keptMemoryBytesMax = 48 * 1024 * 1024;
/** in and out buffers of the C interface: pointer, size and position, 32 bits each. */
const bufferStructBytes = 12;

interface ZstdExports {
  readonly memory: { readonly buffer: ArrayBuffer };
  malloc(bytes: number): number;
  free(pointer: number): void;
  ZSTD_DStreamOutSize(): number;
  ZSTD_createDCtx(): number;
  ZSTD_freeDCtx(context: number): number;
  ZSTD_decompressStream(context: number, output: number, input: number): number;
}

// WebAssembly comes with the DOM's types, which this project does not load.
interface WasmLoader {
  instantiate(module: unknown, imports: object): Promise<{ exports: unknown }>;
}

let compiled: Promise<unknown> | undefined;
let idle: ZstdExports | undefined;

async function loadModule(): Promise<unknown> {
  const { ZSTDDecoder } = await import('zstddec/stream');
  let module: unknown;
  class ModuleTaker extends ZSTDDecoder {
    override _init(result: { module?: unknown }): void {
      module = result.module;
    }
  }
  await new ModuleTaker().init();
  if (module === undefined) throw new Error('zstddec was initialised by somebody else');
  return module;
}

async function newInstance(): Promise<ZstdExports> {
  compiled ??= loadModule();
  const loader = (globalThis as unknown as { WebAssembly: WasmLoader }).WebAssembly;
  const imports = { env: { emscripten_notify_memory_growth: () => undefined } };
  const instance = await loader.instantiate(await compiled, imports);
  return instance.exports as ZstdExports;
}

export async function zstdDecompress(source: Buffer, bytesMax: number): Promise<Buffer> {
  const wasm = idle ?? (await newInstance());
  idle = undefined;
  const plain = decompress(wasm, source, bytesMax);
  if (wasm.memory.buffer.byteLength <= keptMemoryBytesMax) idle = wasm;
  return plain;
}

function decompress(wasm: ZstdExports, source: Buffer, bytesMax: number): Buffer {
  const outBytes = wasm.ZSTD_DStreamOutSize();
  const inPointer = wasm.malloc(Math.max(source.length, 1));
  const outPointer = wasm.malloc(outBytes);
  const input = wasm.malloc(bufferStructBytes);
  const output = wasm.malloc(bufferStructBytes);
  const context = wasm.ZSTD_createDCtx();
  new Uint8Array(wasm.memory.buffer).set(source, inPointer);
  setBuffer(wasm, input, inPointer, source.length);
  const parts: Buffer[] = [];
  let total = 0;
  let hint = 0;
  for (;;) {
    setBuffer(wasm, output, outPointer, outBytes);
    hint = wasm.ZSTD_decompressStream(context, output, input);
    if (hint < 0) throw corrupt(format, `error ${-hint}`);
    const produced = positionOf(wasm, output);
    total += produced;
    if (total > bytesMax) throw tooLarge(format, bytesMax);
    if (produced > 0) parts.push(copyOut(wasm, outPointer, produced));
    // A full output buffer may hide more; else all that could come out has.
    if (positionOf(wasm, input) === source.length && produced < outBytes) break;
  }
  if (hint !== 0) throw corrupt(format, 'frame is cut');
  wasm.ZSTD_freeDCtx(context);
  for (const pointer of [inPointer, outPointer, input, output]) wasm.free(pointer);
  return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts, total);
}

/** Memory may have grown in between, so views are made anew each time. */
function setBuffer(wasm: ZstdExports, struct: number, pointer: number, bytes: number): void {
  const view = new DataView(wasm.memory.buffer);
  view.setUint32(struct, pointer, true);
  view.setUint32(struct + 4, bytes, true);
  view.setUint32(struct + 8, 0, true);
}

function positionOf(wasm: ZstdExports, struct: number): number {
  return new DataView(wasm.memory.buffer).getUint32(struct + 8, true);
}

function copyOut(wasm: ZstdExports, pointer: number, bytes: number): Buffer {
  return Buffer.from(new Uint8Array(wasm.memory.buffer, pointer, bytes));
}
