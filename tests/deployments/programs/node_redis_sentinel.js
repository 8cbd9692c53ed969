// The Sentinel client of node-redis.

const { createSentinel } = require("redis");
const { addresses, show, errorOf, after, load, run, RELEASE, PROTOCOL } = require("./common.js");

const sentinelRootNodes = addresses("REDIS_SENTINELS");
const name = process.env.REDIS_SENTINEL_SERVICE;
const numbers = Array.from({ length: 200 }, (_, number) => number);
const connected = async () => {
  const client = createSentinel({ name, sentinelRootNodes, RESP: PROTOCOL, masterPoolSize: 5, replicaPoolSize: 1 });
  client.on("error", (error) => console.error(`error of the client: ${error.message}`));
  client.on("client-error", ({ error }) => console.error(`error of a connection: ${error.message}`));
  await client.connect();
  return client;
};

const operations = async (client) => {
  for (const number of numbers) await client.set(`key:${number}`, number);
  show("set", await client.mGet(["key:0", "key:199", "none"]));
  show("incr", [await client.incr("counter"), await client.incrBy("counter", 41), await client.append("text", "abc")]);
  show("hash", [await client.hSet("hash", { a: 1, b: 2 }), await client.hGetAll("hash")]);
  show("wrong type", await errorOf(() => client.lPush("hash", "1")));
  show("transaction", await client.multi().set("a", 1).incr("a").lRange("none", 0, -1).exec());
  show("eval", await client.eval("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}", { keys: ["counter"], arguments: ["x"] }));
  show("nothing to pop", await client.blPop("queue", 0.2));
  const another = await connected();
  const popped = another.blPop("queue", 10);
  await after(200);
  await client.rPush("queue", "element");
  show("pop", await popped);
  await another.destroy();
  const lock = (token) => client.set("lock", token, { NX: true, PX: 30000 });
  show("lock", [await lock("token"), await lock("other")]);
  const release = (token) => client.eval(RELEASE, { keys: ["lock"], arguments: [token] });
  show("release", [await release("other"), await release("token")]);
  await client.use(async (leased) => {
    await leased.watch("watched");
    show("leased", await leased.multi().set("watched", 1).get("watched").exec());
  });
  show("nodes", [Boolean(client.getMasterNode()), client.getReplicaNodes().size]);
};

run(async () => {
  const client = await connected();
  await operations(client);
  await load(async (key, number) => {
    await client.rPush(key, String(number));
    await client.incr(`n${key}`);
  });
  const got = await client.mGet(numbers.map((number) => `key:${number}`));
  show("get", got.every((answer, number) => answer === String(number)));
  show("values", [await client.get("counter"), await client.hGetAll("hash"), await client.get("a")]);
});
