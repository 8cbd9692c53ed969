// The Cluster of ioredis.

const { Cluster } = require("ioredis");
const { addresses, isKnown, show, errorOf, after, load, run, RELEASE } = require("./common.js");

const nodes = addresses("REDIS_CLUSTER_NODES").slice(0, 2);
const numbers = Array.from({ length: 200 }, (_, number) => number);

const operations = async (client) => {
  const set = await Promise.all(numbers.map((number) => client.set(`key:${number}`, number)));
  show("set", set.every((answer) => answer === "OK"));
  const got = await Promise.all(numbers.map((number) => client.get(`key:${number}`)));
  show("get", got.every((answer, number) => answer === String(number)));
  show("incr", [await client.incr("counter"), await client.incrby("counter", 41), await client.append("text", "abc")]);
  show("hash", [await client.hset("hash", { a: 1, b: 2 }), await client.hgetall("hash")]);
  show("wrong type", await errorOf(() => client.lpush("hash", 1)));
  show("cross-slot", await errorOf(() => client.mset({ a: 1, b: 2 })));
  show("transaction", await client.multi().set("{tag}a", 1).incr("{tag}a").lrange("{tag}none", 0, -1).exec());
  show("failing transaction", await errorOf(() => client.multi().set("{tag}b", "x").incr("{tag}b").exec()));
  show("broken transaction", await errorOf(() => client.multi().set("{tag}b").exec()));
  const pipeline = client.pipeline();
  for (const number of numbers) pipeline.set(`{tag}pipe:${number}`, number).get(`{tag}pipe:${number}`);
  const answers = await pipeline.exec();
  show("pipeline", answers.filter(([error, answer], at) => error || answer !== (at % 2 ? String((at - 1) / 2) : "OK")));
  show("pipeline across", await errorOf(() => client.pipeline().set("key:1", 1).set("key:2", 2).get("key:3").exec()));
  show("eval", await client.eval("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}", 1, "counter", "x"));
  client.defineCommand("raise", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
  show("script", [await client.raise("scripted", 7), await client.raise("scripted", 7)]);
  show("script across", await errorOf(() => client.eval("return 1", 2, "a", "b")));
  const blocked = client.duplicate();
  show("nothing to pop", await blocked.blpop("queue", 0.2));
  const popped = blocked.blpop("queue", 10);
  await after(200);
  await client.rpush("queue", "element");
  show("pop", await popped);
  blocked.disconnect();

  const subscriber = client.duplicate();
  show("subscribe", await subscriber.subscribe("news"));
  const heard = new Promise((resolve) => subscriber.once("message", (...message) => resolve(message)));
  await client.publish("news", "hello");
  show("message", await heard);
  subscriber.disconnect();
  const sharded = new Cluster(nodes, { shardedSubscribers: true });
  show("ssubscribe", await sharded.ssubscribe("shard"));
  const heardOfShard = new Promise((resolve) => sharded.once("smessage", (...message) => resolve(message)));
  await client.spublish("shard", "hello");
  show("sharded message", await heardOfShard);
  sharded.disconnect();

  for (const master of client.nodes("master")) await master.wait(1, 10000);
  const reader = new Cluster(nodes, { scaleReads: "slave" });
  show("replicas", await Promise.all([1, 2, 3, 4].map(() => reader.get("counter"))));
  reader.disconnect();
  show("lock", [await client.set("lock", "token", "PX", 30000, "NX"), await client.set("lock", "other", "PX", 30000, "NX")]);
  show("release", [await client.eval(RELEASE, 1, "lock", "other"), await client.eval(RELEASE, 1, "lock", "token")]);

  const slots = await client.cluster("SLOTS");
  const named = slots.flatMap(([, , ...servers]) => servers);
  show("slots", slots.reduce((sum, [first, last]) => sum + last - first + 1, 0));
  show("slots known", named.every(([host, port]) => isKnown(host, port)));
  const lines = (await client.cluster("NODES")).trim().split("\n");
  show("nodes known", [lines.length, lines.every((line) => isKnown(...line.split(" ")[1].split("@")[0].split(":")))]);
  show("connected", client.nodes().every((node) => isKnown(node.options.host, node.options.port)));
};

run(async () => {
  const client = new Cluster(nodes, { redisOptions: { maxRetriesPerRequest: null } });
  await operations(client);
  await load(async (key, number) => {
    await client.rpush(key, number);
    await client.incr(`n${key}`);
  });
  const got = await Promise.all(numbers.map((number) => client.get(`{tag}pipe:${number}`)));
  show("get", got.every((answer, number) => answer === String(number)));
  show("values", [await client.get("counter"), await client.hgetall("hash"), await client.get("scripted")]);
});
