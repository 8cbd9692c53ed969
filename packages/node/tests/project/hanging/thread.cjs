// A server that a worker thread has started, while that thread runs and after it has ended.
const { writeFileSync } = require('node:fs');
const { Worker } = require('node:worker_threads');

const source = "require('redouble').startRedouble().then((server) => require('node:worker_threads').parentPort.postMessage(server.port));";
const worker = new Worker(`${source} setInterval(() => {}, 1000);`, { eval: true });
worker.once('message', () => writeFileSync(process.env.MARKER, ''));
