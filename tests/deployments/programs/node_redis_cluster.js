// The cluster client of node-redis.

const { createCluster } = require("redis");
const { addresses, isKnown, show, errorOf, after, load, run, RELEASE, PROTOCOL } = require("./common.js");

const rootNodes = addresses("REDIS_CLUSTER_NODES")
  .slice(0, 2)
  .map((socket) => ({ socket }));
const numbers = Array.from({ length: 200 }, (_, number) => number);
const connected = async (options = {}) => {
  const client = createCluster({ rootNodes, RESP: PROTOCOL, ...options });
  client.on("error", (error) => console.error(`error of the client: ${error.message}`));
  client.on("node-error", (error) => console.error(`error of a node: ${error.message}`));
  await client.connect();
  return client;
};

const operations = async (client) => {
  const set = await Promise.all(numbers.map((number) => client.set(`key:${number}`, number)));
  show("set", set.every((answer) => answer === "OK"));
  const got = await Promise.all(numbers.map((number) => client.get(`key:${number}`)));
  show("get", got.every((answer, number) => answer === String(number)));
  show("incr", [await client.incr("counter"), await client.incrBy("counter", 41), await client.append("text", "abc")]);
  show("hash", [await client.hSet("hash", { a: 1, b: 2 }), await client.hGetAll("hash")]);
  show("wrong type", await errorOf(() => client.lPush("hash", "1")));
  show("cross-slot", await errorOf(() => client.sendCommand("a", false, ["MSET", "a", "1", "b", "2"])));
  show("transaction", await client.multi().set("{tag}a", 1).incr("{tag}a").lRange("{tag}none", 0, -1).exec());
  show("eval", await client.eval("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}", { keys: ["counter"], arguments: ["x"] }));
  show("script across", await errorOf(() => client.eval("return 1", { keys: ["a", "b"] })));
  const blocked = await connected();
  show("nothing to pop", await blocked.blPop("queue", 0.2));
  const popped = blocked.blPop("queue", 10);
  await after(200);
  await client.rPush("queue", "element");
  show("pop", await popped);
  let hear;
  const heard = new Promise((resolve) => (hear = resolve));
  await blocked.subscribe("news", (...message) => hear(message));
  await client.publish("news", "hello");
  show("message", await heard);
  const heardOfShard = new Promise((resolve) => (hear = resolve));
  await blocked.sSubscribe("shard", (...message) => hear(message));
  await client.sPublish("shard", "hello");
  show("sharded message", await heardOfShard);
  await blocked.destroy();
  for (const master of client.masters) await (await client.nodeClient(master)).wait(1, 10000);
  const reader = await connected({ useReplicas: true });
  show("replicas", await Promise.all([1, 2, 3, 4].map(() => reader.get("counter"))));
  await reader.destroy();
  const lock = (token) => client.set("lock", token, { NX: true, PX: 30000 });
  show("lock", [await lock("token"), await lock("other")]);
  const release = (token) => client.eval(RELEASE, { keys: ["lock"], arguments: [token] });
  show("release", [await release("other"), await release("token")]);
  show("nodes known", [...client.nodeByAddress.keys()].every((address) => isKnown(...address.split(":"))));
  const node = await client.nodeClient(client.masters[0]);
  const shards = await node.sendCommand(["CLUSTER", "SHARDS"]);
  show("shards known", [shards.length, shards.every((shard) => shard.nodes.every((one) => isKnown(one.ip, one.port)))]);
};

run(async () => {
  const client = await connected();
  await operations(client);
  await load(async (key, number) => {
    await client.rPush(key, String(number));
    await client.incr(`n${key}`);
  });
  const got = await Promise.all(numbers.map((number) => client.get(`key:${number}`)));
  show("get", got.every((answer, number) => answer === String(number)));
  show("values", [await client.get("counter"), await client.hGetAll("hash"), await client.get("{tag}a")]);
});
