// What the Node programs share: where the deployment is, the lines that they print, and the load. `common.py` says what the
// lines mean.

const readline = require("node:readline");
const { inspect } = require("node:util");

const WORKERS = 4;
const KEYS = 97;

const addresses = (name) =>
  process.env[name].split(",").map((address) => {
    const at = address.lastIndexOf(":");
    return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
  });

const isKnown = (host, port) =>
  addresses("REDIS_CLUSTER_NODES").some((known) => known.host === host && known.port === Number(port));

// Replies over RESP3 have no prototype.
const plain = (value) => JSON.parse(JSON.stringify(value === undefined ? null : value));

const show = (name, result) => console.log(`${name}: ${inspect(plain(result), { breakLength: Infinity, depth: 9 })}`);

const errorOf = async (run) => {
  try {
    return await run();
  } catch (error) {
    return [error.name, error.message];
  }
};

const after = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const load = async (write) => {
  console.log("-- load");
  let isOver = false;
  const lines = readline.createInterface({ input: process.stdin });
  lines.once("line", () => {
    isOver = true;
    lines.close();
  });
  const work = async (worker) => {
    let number = 0;
    const unknown = [];
    while (!isOver) {
      number += 1;
      try {
        await write(`w${worker}:${number % KEYS}`, number);
      } catch (error) {
        unknown.push(number);
        console.error(`error ${worker} ${number} ${error.name}: ${error.message}`);
        await after(50);
      }
      if (number % 200 === 0) console.log(".");
      await after(1);
    }
    return [number, unknown];
  };
  const written = await Promise.all(Array.from({ length: WORKERS }, (_, worker) => work(worker)));
  written.forEach(([last, unknown], worker) => console.log(`worker ${worker} ${last} unknown ${unknown.join(" ")}`));
  console.log("-- after");
};

const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

const run = (main) =>
  main().then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );

module.exports = { addresses, isKnown, show, errorOf, after, load, run, RELEASE, PROTOCOL: Number(process.env.PROTOCOL ?? 2) };
