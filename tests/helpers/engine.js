// Loads traces into Perfetto's trace processor (WebAssembly), one after the other, and answers SQL; see engine.py, which
// calls it with the folder of the engine.
//
//   each line of stdin    {"trace": path, "queries": [sql, ...]}
//   its line of stdout    [{"columns": [name, ...], "rows": [[cell, ...], ...]} or {"error": text}, ...]
//                         or {"error": text} where the trace can't be loaded
//
// With `stdio` behind the folder it speaks the engine's own protocol instead, as `trace_processor_shell server stdio`.
//
// Between two traces the engine is reset: to start it costs a second, of which most is to compile it.
// The engine is made for a browser's worker thread: it wants a global `self`, requests its .wasm by name and
// talks in protobuf messages over a port. Here the port is a plain object, so that every call is synchronous.
'use strict';
const fs = require('fs');
const path = require('path');
const readline = require('readline');
const vm = require('vm');

const APPEND = 1, FINALIZE = 2, QUERY = 3, RESET = 11;  // TraceProcessorRpc.TraceProcessorMethod
const CHUNK = 16 << 20;

// ---- protobuf: just enough of the wire format

function varint(number) {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) bytes.push(number % 128 | 128);
  return Buffer.from([...bytes, number]);
}

const intField = (number, value) => Buffer.concat([varint(number << 3), varint(value)]);
const bytesField = (number, value) => Buffer.concat([varint(number << 3 | 2), varint(value.length), value]);

class Reader {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  get more() { return this.at < this.bytes.length; }
  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }
  take(size) { return this.bytes.subarray(this.at, this.at += size); }
  *fields() {
    while (this.more) {
      const tag = Number(this.varint());
      const wire = tag & 7;
      const value = wire === 0 ? this.varint() : this.take(wire === 2 ? Number(this.varint()) : wire === 1 ? 8 : 4);
      yield [tag >> 3, value];
    }
  }
}

// ---- the engine

// A browser's synchronous request for a file beside the bundle.
const requester = dist => class {
  open(method, url) { this.file = path.join(dist, path.basename(url)); }
  send() {
    const bytes = fs.readFileSync(this.file);
    this.status = 200;
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
};

async function start(dist) {
  process.type = 'renderer';  // else the bundle takes itself for a Node module
  Object.assign(globalThis, {
    self: globalThis,
    WorkerGlobalScope: class {},
    importScripts() {},
    location: {href: 'http://engine/engine_bundle.js'},
    XMLHttpRequest: requester(dist),
  });
  console.warn = console.log = () => {};
  vm.runInThisContext(fs.readFileSync(path.join(dist, 'engine_bundle.js'), 'utf8'));
  const port = {replies: [], postMessage(bytes) { this.replies.push(Buffer.from(bytes)); }};
  globalThis.onmessage({data: port});
  await new Promise(setImmediate);  // the bundle sets itself up in promises that are due by then
  return port;
}

let sequence = 0;

function call(port, method, body = Buffer.alloc(0)) {
  const message = Buffer.concat([intField(1, ++sequence), intField(2, method), body]);
  port.replies = [];
  port.onmessage({data: new Uint8Array(bytesField(1, message))});
  const answers = [];
  for (const [, message] of new Reader(Buffer.concat(port.replies)).fields()) {
    const fields = [...new Reader(message).fields()];
    const fatal = fields.find(([number]) => number === 5);
    if (fatal) throw new Error(fatal[1].toString());
    answers.push(fields);
  }
  return answers;
}

function load(port, trace) {
  call(port, RESET);
  const bytes = fs.readFileSync(trace);
  for (let at = 0; at < bytes.length; at += CHUNK) {
    const answers = call(port, APPEND, bytesField(101, bytes.subarray(at, at + CHUNK)));
    for (const [number, result] of answers.flat()) {
      const error = number === 201 && [...new Reader(result).fields()].find(([field]) => field === 2);
      if (error) throw new Error(`the engine can't load ${trace}: ${error[1]}`);
    }
  }
  call(port, FINALIZE);
}

function* cells(batch) {
  const part = {1: [], 2: [], 3: [], 4: [], 5: []};
  for (const [number, value] of batch.fields()) {
    if (number <= 5) part[number].push(value);
  }
  const packed = number => new Reader(Buffer.concat(part[number]));
  const [kinds, ints, floats] = [packed(1), packed(2), packed(3)];
  const strings = Buffer.concat(part[5]).toString().split('\0').values();  // shift() would move all the others
  while (kinds.more) {
    switch (Number(kinds.varint())) {
      case 1: yield null; break;
      case 2: yield BigInt.asIntN(64, ints.varint()); break;
      case 3: yield floats.take(8).readDoubleLE(); break;
      case 4: yield strings.next().value; break;
      default: yield `blob of ${part[4].shift().length} bytes`;
    }
  }
}

function query(port, sql) {
  const columns = [], flat = [];
  for (const [number, result] of call(port, QUERY, bytesField(103, bytesField(1, Buffer.from(sql)))).flat()) {
    if (number !== 203) continue;
    for (const [field, value] of new Reader(result).fields()) {
      if (field === 1) columns.push(value.toString());
      if (field === 2 && value.length) return {error: value.toString()};
      if (field === 3) for (const cell of cells(new Reader(value))) flat.push(cell);
    }
  }
  const rows = [];
  for (let at = 0; at < flat.length; at += columns.length) rows.push(flat.slice(at, at + columns.length));
  return {columns, rows};
}

// JSON.stringify refuses 64-bit integers; Python reads them as they stand.
function text(value) {
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return `"${value}"`;
  if (typeof value === 'number' && Number.isInteger(value)) return value.toFixed(1);
  if (Array.isArray(value)) return `[${value.map(text).join(',')}]`;
  if (value && typeof value === 'object') {
    return `{${Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${text(item)}`).join(',')}}`;
  }
  return JSON.stringify(value);
}

function answer(port, job) {
  try {
    load(port, job.trace);
    return text(job.queries.map(sql => query(port, sql)));
  } catch (error) {
    return text({error: error.message});
  }
}

start(process.argv[2]).then(async port => {
  if (process.argv[3] === 'stdio') {
    port.postMessage = bytes => fs.writeSync(1, bytes);
    for await (const bytes of process.stdin) port.onmessage({data: new Uint8Array(bytes)});
    process.exit(0);
  }
  for await (const line of readline.createInterface({input: process.stdin})) {
    fs.writeSync(1, answer(port, JSON.parse(line)) + '\n');
  }
  process.exit(0);
});
